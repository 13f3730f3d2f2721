package agent

import (
	"errors"
	"os"
	"sync"
	"time"
)

// input is the standard input of a process. Each chunk has an absolute offset, so that a chunk that
// arrives twice is written only once.
type input struct {
	mu       sync.Mutex // locked during a write, so that chunks stay in order
	to       *os.File   // nil if the process has no input
	terminal bool
	accepted uint64
	midLine  bool // the last accepted byte is not the end of a line
	closed   bool
}

// endOfFile is the character that ends the input of a terminal.
const endOfFile = 4

// endOfInput returns the characters that end the input of a terminal. In the middle of a line, a
// single end-of-file character would only send the unfinished line to the reader.
func endOfInput(midLine bool) []byte {
	if midLine {
		return []byte{endOfFile, endOfFile}
	}
	return []byte{endOfFile}
}

var errGapInInput = errors.New("input is missing before this offset")

// write writes data at an offset. It returns when the data is in the pipe, or when the process no
// longer reads its input.
func (in *input) write(offset uint64, data []byte, eof bool) (accepted uint64, closed bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.to == nil || in.closed {
		return in.accepted, true, nil
	}
	if offset > in.accepted {
		return in.accepted, false, errGapInInput
	}
	if skip := in.accepted - offset; skip < uint64(len(data)) {
		n, err := in.to.Write(data[skip:])
		in.accepted += uint64(n)
		if n > 0 {
			last := data[skip:][n-1]
			in.midLine = last != '\n' && last != '\r'
		}
		if err != nil { // no process reads the input any more
			in.close()
			return in.accepted, true, nil
		}
	}
	if eof {
		if in.terminal {
			in.to.Write(endOfInput(in.midLine))
			in.closed = true
		} else {
			in.close()
		}
	}
	return in.accepted, in.closed, nil
}

func (in *input) close() {
	in.closed = true
	if !in.terminal {
		in.to.Close()
	}
}

// end closes the input of an ended process, and unblocks a pending write.
func (in *input) end() {
	if in.to == nil {
		return
	}
	in.to.SetWriteDeadline(time.Unix(1, 0))
	in.mu.Lock()
	if !in.closed {
		in.close()
	}
	in.mu.Unlock()
}
