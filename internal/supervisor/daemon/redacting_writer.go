package daemon

import (
	"cmp"
	"io"
	"sync"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// redactingWriter forwards one output of a job, with secrets redacted. It counts the bytes. For a
// checkpoint it can be blocked, even while its reader does not read.
type redactingWriter struct {
	reader *asyncWriter // nil: the destination never blocks

	mu        sync.Mutex // locked during a hold, and briefly during each write
	count     uint64     // bytes that the program has written
	w         *secret.Writer
	suspended bool // whether the job continues under another supervisor
}

// position is the state of an output in a checkpoint: how much of it has been forwarded.
type position struct {
	Bytes uint64     `json:"bytes"` // bytes that the program has written
	Cut   secret.Cut `json:"cut,omitzero"`
}

// newWriter returns a redacting writer. Its destination must never block. The output continues at
// the given position.
func (d *daemon) newWriter(to io.Writer, from position) *redactingWriter {
	return &redactingWriter{w: d.secrets.Continue(to, from.Cut), count: from.Bytes}
}

// newWriters returns a redacting writer with two destinations. The destination kept must never
// block. Write waits until the destination reader has received the bytes.
func (d *daemon) newWriters(reader, kept io.Writer) *redactingWriter {
	async := newAsyncWriter(reader)
	w := d.newWriter(io.MultiWriter(kept, async), position{})
	w.reader = async
	return w
}

// errSuspended is the error of operations on a job that continues under another supervisor.
var errSuspended = fault.Newf(fault.Unavailable, "it was paused together with the workspace").
	WithHint("the next operation on the workspace resumes it")

func (o *redactingWriter) Write(b []byte) (n int, err error) {
	err = o.pass(func() error {
		if o.suspended {
			return errSuspended
		}
		n, err = o.w.Write(b)
		o.count += uint64(n)
		return err
	})
	return n, err
}

// Close also forwards the last bytes, which were held back because they might have been the start
// of a secret. It does not forward them if the job continues under another supervisor.
func (o *redactingWriter) Close() error {
	return o.pass(func() error {
		if o.suspended {
			return nil
		}
		return o.w.Close()
	})
}

// pass calls the function write, and waits until the reader has received all bytes.
func (o *redactingWriter) pass(write func() error) error {
	if o.reader == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		return write()
	}
	o.reader.begin()
	o.mu.Lock()
	err := write()
	o.mu.Unlock()
	return cmp.Or(err, o.reader.flush())
}

// hold blocks further writes until release is called, and returns the position. The reader might
// not have received all bytes before that position.
func (o *redactingWriter) hold() position {
	o.mu.Lock()
	return position{Bytes: o.count, Cut: o.w.Cut()}
}

// release allows writes again after hold. If suspended is true, further writes fail with
// errSuspended.
func (o *redactingWriter) release(suspended bool) {
	o.suspended = suspended
	if !suspended {
		o.w.Write(nil) // restarts the timer for bytes that might be the start of a secret
	}
	o.mu.Unlock()
}
