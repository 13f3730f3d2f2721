package rpc

import (
	"context"
	"errors"
	"io"
	"sync"
)

// message is a line for the client.
type message struct {
	text  []byte
	begun func() // called before the client can see the first of it; may be nil
}

// outlet is where all that a client is told goes through, a message at a time. Nothing is kept here: who sends waits until the one before has been written.
type outlet struct {
	messages chan message
	last     chan struct{} // closed: no more are to come
	written  chan struct{} // closed: none is written any more
	gone     chan struct{} // closed: nobody reads
	leave    func()        // closes gone
}

func newOutlet() *outlet {
	o := &outlet{messages: make(chan message), last: make(chan struct{}), written: make(chan struct{}), gone: make(chan struct{})}
	o.leave = sync.OnceFunc(func() { close(o.gone) })
	return o
}

// write writes what is sent until there is no more, or nobody reads.
func (o *outlet) write(to io.Writer) error {
	defer close(o.written)
	for {
		select {
		case m := <-o.messages:
			if m.begun != nil {
				m.begun()
			}
			if _, err := to.Write(m.text); err != nil {
				o.leave()
				return err
			}
		case <-o.last:
			return nil
		case <-o.gone:
			return nil
		}
	}
}

var errGone = errors.New("the client reads no more")

// send waits until a message is about to be written, nobody reads, or ctx ends.
func (o *outlet) send(ctx context.Context, m message) error {
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
