package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Some clients frame messages as language servers do: each behind a header of its own, with its length. The first message tells, and is answered likewise.

// maxHeader bounds the header of a message, in bytes.
const maxHeader = 4 << 10

// isFramed tells whether a client begins with a header. It waits for the first byte of its first message, which no message that is JSON has in common with one.
func isFramed(in *bufio.Reader) bool {
	for {
		b, err := in.Peek(1)
		switch {
		case err != nil:
			return false
		case b[0] == 'C' || b[0] == 'c': // Content-Length, Content-Type
			return true
		case !strings.ContainsRune(" \t\r\n", rune(b[0])):
			return false
		}
		in.Discard(1)
	}
}

// frames reads framed messages.
type frames struct{ in *bufio.Reader }

// next is as [lines.Reader.Next]: a message, on one line. After a header that tells no length there is no next.
func (f *frames) next() (message []byte, fits bool, err error) {
	length, err := f.header()
	if errors.Is(err, errHeader) {
		return []byte(err.Error()), true, err
	}
	if err != nil {
		return nil, true, err
	}
	if length > MaxBody {
		_, err := io.CopyN(io.Discard, f.in, length)
		return nil, false, err
	}
	message = make([]byte, length)
	if _, err := io.ReadFull(f.in, message); err != nil {
		return nil, true, io.EOF // what was cut off is no message
	}
	var line bytes.Buffer
	if json.Compact(&line, message) != nil {
		return message, true, nil
	}
	return line.Bytes(), true, nil
}

// header reads one, and gives the length of the message behind it.
func (f *frames) header() (length int64, err error) {
	length = -1
	for left := maxHeader; left > 0; {
		line, err := f.in.ReadSlice('\n')
		if err != nil {
			return 0, io.EOF
		}
		left -= len(line)
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		switch {
		case name == "" && length >= 0:
			return length, nil
		case strings.EqualFold(name, "Content-Length"):
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 62)
			if err != nil {
				return 0, errHeader
			}
			length = int64(n)
		case name == "" && left < maxHeader-len(line):
			return 0, errHeader // other fields, and no length
		}
	}
	return 0, errHeader
}

var errHeader = errors.New("a header without a length")

// withHeader is a line as a framed message.
func withHeader(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(line)), line...)
}
