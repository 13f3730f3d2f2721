package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine/gvisor/protocol"
)

// control is pyro's end of the connection to the sentry. User code does not run in the sentry, but
// a hostile program might have taken it over.
type control struct {
	*net.UnixConn
	events  *json.Decoder
	pending *io.LimitedReader // limits how much the decoder reads from the connection
	busy    chan struct{}     // acquired while a call waits for an event
}

// newControl creates a control from the near end of machine.NewStream.
func newControl(conn net.Conn) *control {
	pending := &io.LimitedReader{R: conn, N: protocol.MaxEvent}
	return &control{conn.(*net.UnixConn), json.NewDecoder(pending), pending, make(chan struct{}, 1)}
}

// send sends the start config or a command, together with open files.
func (c *control) send(v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var rights []byte
	for _, f := range files {
		rights = append(rights, unix.UnixRights(int(f.Fd()))...)
	}
	_, _, err = c.WriteMsgUnix(append(b, '\n'), rights, nil)
	return err
}

// await waits for the event with the given name. It fails if ctx is cancelled, if the helper
// refuses (refusal), or if the machine ends. After ctx is cancelled, the control can't be used any
// more.
func (c *control) await(ctx context.Context, name string) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var e protocol.Event
	c.pending.N = protocol.MaxEvent
	err := c.events.Decode(&e)
	var garbled *json.SyntaxError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &garbled):
		return &refusal{text: "its protocol version differs from this pyro's", hint: "make build, so that " + HelperName + " has the same version as pyro"}
	case err != nil:
		return err
	case e.Event != name:
		return &refusal{e.Error, e.Hint}
	}
	return nil
}

// ask sends a command and waits until the helper has executed it. Concurrent calls wait for each
// other. If ctx is cancelled, the command might still run. The next call then waits for it.
func (c *control) ask(ctx context.Context, what, done string, files ...*os.File) error {
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := c.send(protocol.Command{Do: what}, files...)
	if err != nil {
		<-c.busy
		return err
	}
	answer := make(chan error, 1)
	go func() {
		answer <- c.await(context.Background(), done)
		<-c.busy
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refusal is the error if the helper refuses a start config or a command.
type refusal struct{ text, hint string }

func (r *refusal) Error() string { return HelperName + ": " + r.text }
