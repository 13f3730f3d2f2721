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

// base85 is git's alphabet, that of RFC 1924.
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// literal is binary content in a patch: the content itself, or a delta that makes it of the old content.
type literal struct {
	line  int // of its header, from 1
	delta bool
	size  int    // of the content or delta
	body  []byte // its lines in the patch
}

// binaryContent reads what follows "GIT binary patch": the way forward, and perhaps the way back. That is not used, but it tells whether the patch is whole.
func (p *parser) binaryContent(s *section) error {
	p.skip()
	l, err := p.literal()
	if err != nil {
		return err
	}
	if l == nil {
		return invalid(p.line, "binary content begins with literal SIZE or delta SIZE")
	}
	s.binary = l
	if !fullHash(s.oldHash) || len(s.oldHash) != len(s.newHash) {
		return invalid(l.line, "binary content needs an index line with whole hashes before it, as git diff --binary writes")
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

// literal reads binary content up to the empty line after it; nil where none begins.
func (p *parser) literal() (*literal, error) {
	line := p.peek()
	word, digits, _ := strings.Cut(string(line[:min(len(line), 40)]), " ")
	if word != "literal" && word != "delta" {
		return nil, nil
	}
	size, err := strconv.Atoi(strings.TrimSuffix(digits, "\r"))
	l := &literal{line: p.line, delta: word == "delta", size: size}
	if err != nil || size < 0 {
		return nil, invalid(p.line, "%.20q is no size", digits)
	}
	if size > MaxFile {
		return nil, invalid(p.line, "binary content of more than %d MiB", MaxFile>>20)
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

// unpack gives the content or delta. It is bounded by the size that the patch tells.
func (l *literal) unpack() ([]byte, error) {
	var packed bytes.Buffer
	line := l.line
	for text := range bytes.Lines(l.body) {
		line++
		if !unpackLine(&packed, bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))) {
			return nil, invalid(line, "this is no line of binary content")
		}
	}
	z, err := zlib.NewReader(&packed)
	if err != nil {
		return nil, invalid(l.line, "the binary content is damaged: %v", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, int64(l.size)+1))
	if err == nil && len(data) != l.size {
		err = errors.New("it is not of the size that it is said to be")
	}
	if err != nil {
		return nil, invalid(l.line, "the binary content is damaged: %v", err)
	}
	return data, nil
}

// unpackLine reads a line. Its first letter tells how many bytes it holds: A to Z are 1 to 26, a to z 27 to 52. Five letters make four bytes.
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

// patchBinary gives what binary content makes of a file's old content.
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
		return nil, invalid(s.binary.line, "the binary content does not make what the index line says")
	}
	return data, nil
}

// applyDelta makes content of other content. A delta has the sizes of both, and then pieces: some bytes of the old, or new ones.
func applyDelta(old, delta []byte) ([]byte, error) {
	errDamaged := errors.New("it makes no sense")
	r := bytes.NewReader(delta)
	oldSize, err1 := binary.ReadUvarint(r)
	newSize, err2 := binary.ReadUvarint(r)
	if err := errors.Join(err1, err2); err != nil || oldSize != uint64(len(old)) || newSize > MaxFile {
		return nil, errDamaged
	}
	out := make([]byte, 0, newSize)
	for r.Len() > 0 {
		code, _ := r.ReadByte()
		if code&0x80 == 0 { // so many new bytes
			at := len(delta) - r.Len()
			if code == 0 || int(code) > r.Len() || len(out)+int(code) > int(newSize) {
				return nil, errDamaged
			}
			out = append(out, delta[at:at+int(code)]...)
			r.Seek(int64(code), io.SeekCurrent)
			continue
		}
		var fields [7]byte // four of the offset, three of the length, low first; each bit tells whether one is there
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

// fullHash tells whether a hash is whole: SHA-1, or SHA-256 in repositories that use it.
func fullHash(h string) bool { return len(h) == 2*sha1.Size || len(h) == 2*sha256.Size }

func zeroHash(h string) bool { return strings.Trim(h, "0") == "" }

// hash is git's name of content, with so many letters.
func hash(data []byte, letters int) string {
	h := sha1.New()
	if letters == 2*sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return fmt.Sprintf("%x", h.Sum(nil))
}
