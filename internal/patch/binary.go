package patch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// base85 is the alphabet of RFC 1924, which git uses for binary content.
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// literal is a block of binary content in a patch. It is either the content itself, or a delta
// against the old content.
type literal struct {
	line  int // line number of the header, counting from 1
	delta bool
	size  int    // size of the unpacked content or delta, in bytes
	body  []byte // the encoded lines in the patch
}

// binaryContent reads the blocks after "GIT binary patch": the forward change and an optional
// reverse change. It unpacks the reverse change only to check that the patch is complete.
func (p *parser) binaryContent(s *section) error {
	p.skip()
	l, err := p.literal()
	if err != nil {
		return err
	}
	if l == nil {
		return invalid(p.line, `binary content must begin with "literal SIZE" or "delta SIZE"`)
	}
	s.binary = l
	if !fullHash(s.oldHash) || len(s.oldHash) != len(s.newHash) {
		return invalid(l.line, "binary content needs an index line with full hashes before it, as written by git diff --binary")
	}
	back, err := p.literal()
	if err != nil || back == nil {
		return err
	}
	if p.unpacked += back.size; p.unpacked > MaxContent {
		return fault.New(fault.Exhausted, op, "", "the patch has more than %d MiB of binary content", MaxContent>>20)
	}
	_, err = back.unpack()
	return err
}

// literal reads a block of binary content, and the empty line after the block. If the next line
// does not begin a block, it returns nil.
func (p *parser) literal() (*literal, error) {
	line := p.peek()
	word, digits, _ := strings.Cut(string(line[:min(len(line), 40)]), " ")
	if word != "literal" && word != "delta" {
		return nil, nil
	}
	size, err := strconv.Atoi(strings.TrimSuffix(digits, "\r"))
	l := &literal{line: p.line, delta: word == "delta", size: size}
	if err != nil || size < 0 {
		return nil, invalid(p.line, "%.20q is not a size", digits)
	}
	if size > MaxFile {
		return nil, invalid(p.line, "binary content is larger than %d MiB", MaxFile>>20)
	}
	p.skip()
	start := p.at
	for len(bytes.TrimSuffix(p.peek(), []byte("\r"))) > 0 {
		p.skip()
	}
	l.body = p.text[start:p.at]
	p.skip()
	return l, nil
}

// unpack decodes the content or delta. It decompresses at most one byte more than the size in the
// header.
func (l *literal) unpack() ([]byte, error) {
	var packed bytes.Buffer
	line := l.line
	for text := range bytes.Lines(l.body) {
		line++
		if !unpackLine(&packed, bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))) {
			return nil, invalid(line, "this is not a line of binary content")
		}
	}
	z, err := zlib.NewReader(&packed)
	if err != nil {
		return nil, invalid(l.line, "the binary content is damaged: %v", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, int64(l.size)+1))
	if err == nil && len(data) != l.size {
		err = errors.New("its size is not the size in its header")
	}
	if err != nil {
		return nil, invalid(l.line, "the binary content is damaged: %v", err)
	}
	return data, nil
}

// unpackLine decodes one line. The first character encodes the number of bytes: A to Z mean 1 to
// 26, and a to z mean 27 to 52. Each group of five characters encodes four bytes.
func unpackLine(out *bytes.Buffer, line []byte) bool {
	if len(line) == 0 {
		return false
	}
	n := 0
	switch c := line[0]; {
	case c >= 'A' && c <= 'Z':
		n = int(c-'A') + 1
	case c >= 'a' && c <= 'z':
		n = int(c-'a') + 27
	}
	line = line[1:]
	if n == 0 || len(line) != (n+3)/4*5 {
		return false
	}
	for ; n > 0; n -= 4 {
		v := uint64(0)
		for _, c := range line[:5] {
			digit := strings.IndexByte(base85, c)
			if digit < 0 {
				return false
			}
			v = v*85 + uint64(digit)
		}
		if v > 1<<32-1 {
			return false
		}
		line = line[5:]
		out.Write(binary.BigEndian.AppendUint32(nil, uint32(v))[:min(n, 4)])
	}
	return true
}

// patchBinary applies the binary content of the section to a file's old content.
func (s *section) patchBinary(old []byte) ([]byte, error) {
	data, err := s.binary.unpack()
	if err != nil {
		return nil, err
	}
	if s.binary.delta {
		if data, err = applyDelta(old, data); err != nil {
			return nil, invalid(s.binary.line, "the binary delta is damaged: %v", err)
		}
	}
	if zeroHash(s.newHash) && len(data) > 0 || !zeroHash(s.newHash) && hash(data, len(s.newHash)) != s.newHash {
		return nil, invalid(s.binary.line, "the result of the binary content does not have the hash in the index line")
	}
	return data, nil
}

// applyDelta builds new content from old content. A delta begins with the sizes of both.
// Instructions follow, which either copy a range of the old content or insert new bytes.
func applyDelta(old, delta []byte) ([]byte, error) {
	errDamaged := errors.New("the delta is malformed")
	r := bytes.NewReader(delta)
	oldSize, err1 := binary.ReadUvarint(r)
	newSize, err2 := binary.ReadUvarint(r)
	if err := errors.Join(err1, err2); err != nil || oldSize != uint64(len(old)) || newSize > MaxFile {
		return nil, errDamaged
	}
	out := make([]byte, 0, newSize)
	for r.Len() > 0 {
		code, _ := r.ReadByte()
		if code&0x80 == 0 { // Insert the next code bytes.
			at := len(delta) - r.Len()
			if code == 0 || int(code) > r.Len() || len(out)+int(code) > int(newSize) {
				return nil, errDamaged
			}
			out = append(out, delta[at:at+int(code)]...)
			r.Seek(int64(code), io.SeekCurrent)
			continue
		}
		var fields [7]byte // 4 bytes of offset, then 3 bytes of length, little-endian. Bit i of code is set if byte i is present.
		for i := range fields {
			if code&(1<<i) != 0 {
				b, err := r.ReadByte()
				if err != nil {
					return nil, errDamaged
				}
				fields[i] = b
			}
		}
		from := int(binary.LittleEndian.Uint32(fields[:4]))
		size := int(fields[4]) | int(fields[5])<<8 | int(fields[6])<<16
		if size == 0 {
			size = 0x10000
		}
		if from+size > len(old) || len(out)+size > int(newSize) {
			return nil, errDamaged
		}
		out = append(out, old[from:from+size]...)
	}
	if len(out) != int(newSize) {
		return nil, errDamaged
	}
	return out, nil
}

// fullHash reports whether h has the length of a full SHA-1 or SHA-256 hash.
func fullHash(h string) bool { return len(h) == 2*sha1.Size || len(h) == 2*sha256.Size }

func zeroHash(h string) bool { return strings.Trim(h, "0") == "" }

// hash returns git's blob hash of data, which has the given number of hex digits. For 64 digits it
// is SHA-256, and otherwise SHA-1.
func hash(data []byte, letters int) string {
	h := sha1.New()
	if letters == 2*sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return fmt.Sprintf("%x", h.Sum(nil))
}
