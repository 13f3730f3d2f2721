package socket

import (
	"context"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FinishTimeout is how long a server keeps working on the calls of a client that has closed its
// input but still reads the answers.
const FinishTimeout = time.Hour

// WhileRead returns a context that ends when no process can read the output any more, or after
// patience. After patience, its Err is context.DeadlineExceeded. A pipe, socket or terminal has no
// reader when all descriptors of the read end are closed. Other writers have only the time limit.
// The caller must call stop.
func WhileRead(ctx context.Context, out io.Writer, patience time.Duration) (_ context.Context, stop context.CancelFunc) {
	ctx, stop = context.WithTimeout(ctx, patience)
	output, ok := duplicate(out)
	if !ok {
		return ctx, stop
	}
	var ended [2]int
	if err := unix.Pipe2(ended[:], unix.O_CLOEXEC); err != nil {
		unix.Close(output)
		return ctx, stop
	}
	context.AfterFunc(ctx, func() { unix.Close(ended[1]) }) // ends the poll below
	go func() {
		state := []unix.PollFd{{Fd: int32(output)}, {Fd: int32(ended[0])}} // poll always reports POLLHUP and POLLERR
		for {
			if _, err := unix.Poll(state, -1); err != unix.EINTR {
				break
			}
		}
		unix.Close(output)
		unix.Close(ended[0])
		stop()
	}()
	return ctx, stop
}

// duplicate returns a new descriptor of a writer that has one.
func duplicate(out io.Writer) (fd int, ok bool) {
	conn, ok := out.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	var failed error
	err = raw.Control(func(from uintptr) { fd, failed = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, err == nil && failed == nil
}
