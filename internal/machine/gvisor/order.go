package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
)

// protocol is the version of what a machine and its owner say to each other. The helper (runsc/order.go) has the same constant, and the same types: it is a
// module of its own.
const protocol = 1

// order says what machine to be.
type order struct {
	Protocol   int      `json:"protocol"`
	ID         string   `json:"id"`
	VCPUs      int      `json:"vcpus"`
	MemBytes   int64    `json:"mem_bytes"`
	LayerBytes int64    `json:"layer_bytes"`
	Args       []string `json:"args"`
	Env        []string `json:"env"`
	State      bool     `json:"state"`
	Restore    bool     `json:"restore"`
}

// event is what a machine tells its owner.
type event struct {
	Event   string `json:"event"`
	Error   string `json:"error"`
	Hint    string `json:"hint"`
	Version string `json:"version"`
}

// control is the owner's end of the connection to a machine. The other end is gVisor, not what runs inside; it is trusted no further than that all the same.
type control struct {
	net.Conn
	events *json.Decoder
}

// maxEvents bounds what is read of a machine's events in its life.
const maxEvents = 1 << 20

func newControl(conn net.Conn) *control {
	return &control{conn, json.NewDecoder(io.LimitReader(conn, maxEvents))}
}

// send sends the order, or a command.
func (c *control) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = c.Write(append(b, '\n'))
	return err
}

// await waits for an event, until ctx is cancelled, the helper refuses (a refusal), or the machine has ended: why is told by its end.
func (c *control) await(ctx context.Context, name string) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var e event
	err := c.events.Decode(&e)
	var garbled *json.SyntaxError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &garbled):
		return &refusal{text: "it does not speak as this pyro does", hint: "make build, so that " + HelperName + " is of the same version as pyro"}
	case err != nil:
		return err
	case e.Event != name:
		return &refusal{e.Error, e.Hint}
	}
	return nil
}

// refusal is what a helper says that does not do what it was asked to.
type refusal struct{ text, hint string }

func (r *refusal) Error() string { return HelperName + ": " + r.text }
