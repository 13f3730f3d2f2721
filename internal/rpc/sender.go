package rpc

import (
	"context"
	"errors"
	"io"
	"sync"
)

// message is a line to send to the client.
type message struct {
	text  []byte
	begun func() // called just before the message is written; can be nil
}

// sender serializes the messages to the client. It has no buffer: the method send blocks until the
// writer receives the message.
type sender struct {
	messages   chan message
	last       chan struct{} // closed after the last message
	written    chan struct{} // closed when write has returned
	gone       chan struct{} // closed when the client has stopped reading
	disconnect func()        // closes gone
}

func newSender() *sender {
	o := &sender{messages: make(chan message), last: make(chan struct{}), written: make(chan struct{}), gone: make(chan struct{})}
	o.disconnect = sync.OnceFunc(func() { close(o.gone) })
	return o
}

// write writes messages until one of the channels last and gone is closed.
func (o *sender) write(to io.Writer) error {
	defer close(o.written)
	for {
		select {
		case m := <-o.messages:
			if m.begun != nil {
				m.begun()
			}
			if _, err := to.Write(m.text); err != nil {
				o.disconnect()
				return err
			}
		case <-o.last:
			return nil
		case <-o.gone:
			return nil
		}
	}
}

var errGone = errors.New("the client has stopped reading")

// send blocks until the message is about to be written, the client has stopped reading, or ctx is
// done.
func (o *sender) send(ctx context.Context, m message) error {
	select {
	case <-o.gone:
		return errGone
	default:
	}
	select {
	case o.messages <- m:
		return nil
	case <-o.gone:
		return errGone
	case <-o.written:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
