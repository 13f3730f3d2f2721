package diff

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
)

// base85 is git's alphabet, that of RFC 1924.
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// perLine is how many bytes a line of a binary patch holds. Its first letter tells how many: A to Z are 1 to 26, a to z 27 to 52.
const perLine = 52

// writeBinary writes content as a binary patch that makes it of anything. There is none for the way back.
func writeBinary(b *bytes.Buffer, data []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(data) // a buffer takes all
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
			var four [4]byte // the last one is filled up with zeros
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
