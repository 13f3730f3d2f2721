package link

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// Listener accepts sessions on the guest's side of a stream, one after another. It is a
// [net.Listener] for an HTTP server. Accept returns the next session only after the previous one
// has ended.
type Listener struct {
	stream net.Conn
	r      *bufio.Reader
	done   chan *session // receives each session when it ends
	closed chan struct{}
	once   sync.Once
	next   *nonce // nonce of the hello that ended the previous session
}

// Listen returns a listener for a stream. The stream must support deadlines and must not have
// another reader.
func Listen(stream net.Conn) *Listener {
	l := &Listener{stream: stream, r: newReader(stream), done: make(chan *session, 1), closed: make(chan struct{})}
	l.done <- nil
	return l
}

// Accept returns the next session. Its errors come from the stream, or it returns net.ErrClosed.
// While the other side is temporarily disconnected, the stream's Read must block.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case before := <-l.done:
		l.stream.SetDeadline(time.Time{})
		if before != nil {
			l.next = before.newHello
		}
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		var k kind
		var n nonce
		if l.next != nil {
			k, n, l.next = hello, *l.next, nil
		} else {
			var err error
			if k, n, err = nextControl(l.r); err != nil {
				return nil, err
			}
		}
		var opened bool
		switch k {
		case hello:
			if _, err := l.stream.Write(controlRecord(welcome, n)); err != nil {
				return nil, err
			}
		case start:
			if _, err := l.stream.Write(controlRecord(started, n)); err != nil {
				return nil, err
			}
			opened = true
		}
		if opened {
			return &session{stream: l.stream, r: l.r, nonce: n, done: l.done}, nil
		}
	}
}

// Close closes the listener but not the stream.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address of the stream.
func (l *Listener) Addr() net.Addr { return l.stream.LocalAddr() }
