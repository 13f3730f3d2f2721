package diff

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
)

// base85 is the alphabet of RFC 1924, which git uses for binary content.
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// perLine is the maximum number of bytes in a line of a binary patch. The first character of a line
// encodes the number: A to Z mean 1 to 26, and a to z mean 27 to 52.
const perLine = 52

// writeBinary writes data as a binary patch that replaces any old content. The patch has no reverse
// change.
func writeBinary(b *bytes.Buffer, data []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(data) // Writing to a bytes.Buffer never fails.
	z.Close()
	fmt.Fprintf(b, "GIT binary patch\nliteral %d\n", len(data))
	for packed.Len() > 0 {
		line := packed.Next(perLine)
		if n := byte(len(line)); n <= 26 {
			b.WriteByte('A' + n - 1)
		} else {
			b.WriteByte('a' + n - 27)
		}
		for len(line) > 0 {
			var four [4]byte // padded with zeros
			line = line[copy(four[:], line):]
			var five [5]byte
			for i, v := 4, binary.BigEndian.Uint32(four[:]); i >= 0; i, v = i-1, v/85 {
				five[i] = base85[v%85]
			}
			b.Write(five[:])
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}
