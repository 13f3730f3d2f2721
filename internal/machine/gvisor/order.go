package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// protocol is the version of what a machine and its owner say to each other. The helper (runsc/order.go) has the same constant, and the same types: it is a
// module of its own.
const protocol = 7

// order says what machine to be.
type order struct {
	Protocol   int      `json:"protocol"`
	ID         string   `json:"id"`
	VCPUs      int      `json:"vcpus"`
	MemBytes   int64    `json:"mem_bytes"`
	LayerBytes int64    `json:"layer_bytes"`
	Tasks      int      `json:"tasks"`
	Args       []string `json:"args"`
	Env        []string `json:"env"`
	Storage    bool     `json:"storage"`
	Root       bool     `json:"root"`
	Restore    bool     `json:"restore"`
	Network    *network `json:"network,omitempty"` // whose link comes with the order
}

// network is what a machine's interface is.
type network struct {
	MAC        []byte       `json:"mac"`
	GatewayMAC []byte       `json:"gateway_mac"`
	Address    netip.Prefix `json:"address"`
	Gateway    netip.Addr   `json:"gateway"`
	Address6   netip.Prefix `json:"address6"`
	Gateway6   netip.Addr   `json:"gateway6"`
	MTU        int          `json:"mtu"`
}

// event is what a machine tells its owner.
type event struct {
	Event   string `json:"event"`
	Error   string `json:"error"`
	Hint    string `json:"hint"`
	Version string `json:"version"`
}

// command is what a started machine is to do.
type command struct {
	Do string `json:"do"`
}

// control is the owner's end of the connection to a machine. The other end is gVisor, not what runs inside; it is trusted no further than that all the same.
type control struct {
	*net.UnixConn
	events  *json.Decoder
	pending *io.LimitedReader // what the decoder reads from
	turn    chan struct{}     // held by who awaits an event
}

// maxEvent bounds what is read of a machine for one event.
const maxEvent = 64 << 10

// newControl makes one of a stream of machine.NewStream.
func newControl(conn net.Conn) *control {
	pending := &io.LimitedReader{R: conn, N: maxEvent}
	return &control{conn.(*net.UnixConn), json.NewDecoder(pending), pending, make(chan struct{}, 1)}
}

// send sends the order, or a command, for which the machine gets files where there are some.
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

// await waits for an event, until ctx is cancelled, the helper refuses (a refusal), or the machine has ended: why is told by its end. What was cancelled can't
// be used any more.
func (c *control) await(ctx context.Context, name string) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var e event
	c.pending.N = maxEvent
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

// ask has a started machine do something, and returns when it tells that it is done. Askers take turns. When ctx is cancelled it may still be done: who asks
// next waits for that.
func (c *control) ask(ctx context.Context, what, done string, files ...*os.File) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := c.send(command{what}, files...)
	if err != nil {
		<-c.turn
		return err
	}
	answer := make(chan error, 1)
	go func() {
		answer <- c.await(context.Background(), done)
		<-c.turn
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refusal is what a helper says that does not do what it was asked to.
type refusal struct{ text, hint string }

func (r *refusal) Error() string { return HelperName + ": " + r.text }
