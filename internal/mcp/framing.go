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

// Some clients frame messages like language servers: each message has a header with its length. The
// server detects this when it reads the first message, and then frames its answers in the same way.

// maxHeader is the maximum size of a message header, in bytes.
const maxHeader = 4 << 10

// isFramed reports whether the client sends headers. It waits for the first byte, because that byte
// differs between a header and JSON.
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

// frames reads messages with headers.
type frames struct{ in *bufio.Reader }

// next is like [lines.Reader.Next]: it returns a message as one line. After a malformed header it
// returns an error, because the start of the next message is unknown.
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
		return nil, true, io.EOF // drops a truncated message
	}
	var line bytes.Buffer
	if json.Compact(&line, message) != nil {
		return message, true, nil
	}
	return line.Bytes(), true, nil
}

// header reads a header and returns the length of its message.
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
			return 0, errHeader // a header without Content-Length
		}
	}
	return 0, errHeader
}

var errHeader = errors.New("missing or invalid Content-Length")

// withHeader returns a line as a message with a header.
func withHeader(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(line)), line...)
}
