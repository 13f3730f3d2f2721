package link

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// Listener accepts sessions on the guest's side of a stream, one after the other. It is a [net.Listener] for an HTTP server: Accept gives the
// next session once the one before is over.
type Listener struct {
	stream net.Conn
	r      *bufio.Reader
	over   chan *session // the session before, when it is over
	closed chan struct{}
	once   sync.Once
	next   *nonce // of a hello that ended the session before
}

// Listen makes a listener. The stream must have no other reader, and know deadlines.
func Listen(stream net.Conn) *Listener {
	l := &Listener{stream: stream, r: newReader(stream), over: make(chan *session, 1), closed: make(chan struct{})}
	l.over <- nil
	return l
}

// Accept gives the next session. Its error is the stream's own: a stream whose other end is away for now must wait in Read.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case before := <-l.over:
		l.stream.SetDeadline(time.Time{})
		if before != nil {
			l.next = before.helloed
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
			if k, n, err = seek(l.r); err != nil {
				return nil, err
			}
		}
		var opened bool
		switch k {
		case hello:
			if _, err := l.stream.Write(control(welcome, n)); err != nil {
				return nil, err
			}
		case start:
			if _, err := l.stream.Write(control(started, n)); err != nil {
				return nil, err
			}
			opened = true
		}
		if opened {
			return &session{stream: l.stream, r: l.r, nonce: n, over: l.over}, nil
		}
	}
}

// Close ends the listener, not the stream.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is that of the stream.
func (l *Listener) Addr() net.Addr { return l.stream.LocalAddr() }
