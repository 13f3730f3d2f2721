package agent

import (
	"errors"
	"os"
	"sync"
	"time"
)

// input is the standard input of a process, written by absolute offset, so that a chunk that is sent again after a cut stream is taken once.
type input struct {
	mu       sync.Mutex // held while writing: chunks are taken one after the other
	to       *os.File   // nil: none
	terminal bool
	accepted uint64
	midLine  bool // what was accepted does not end a line
	closed   bool
}

// endOfFile is the character that ends the input on a terminal.
const endOfFile = 4

// endOfInput ends the input of a terminal. Within a line the first end of file only hands over what there is of the line.
func endOfInput(midLine bool) []byte {
	if midLine {
		return []byte{endOfFile, endOfFile}
	}
	return []byte{endOfFile}
}

var errGapInInput = errors.New("input is missing before this offset")

// write takes data at an offset. It returns when the bytes are in the pipe, or when the process takes no more.
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
		if err != nil { // the reader is gone
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

// end unblocks a write that waits for a process that has ended.
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
