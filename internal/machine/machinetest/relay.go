package machinetest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// relay is a link that comes to lead to another machine. Then it fails once, by which whoever uses it knows.
type relay struct {
	mu    sync.Mutex
	next  *sync.Cond
	conn  net.Conn
	moved bool // and has not failed since
	held  bool // it is about to lead elsewhere
}

func newRelay(conn net.Conn) *relay {
	r := &relay{conn: conn}
	r.next = sync.NewCond(&r.mu)
	return r
}

var errMoved = errors.New("the link leads to another machine now")

func (r *relay) current() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// hold has whoever uses the link wait for the next machine. What is read until the first ends still comes.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = true
}

func (r *relay) to(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn, r.moved, r.held = conn, true, false
	r.next.Broadcast()
}

func (r *relay) Read(b []byte) (int, error) {
	if r.fails() {
		return 0, errMoved
	}
	n, err := r.current().Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && r.fails() {
		err = errMoved
	}
	return n, err
}

// fails waits while the link leads nowhere, and tells whether it has come to lead elsewhere since it failed last.
func (r *relay) fails() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held {
		r.next.Wait()
	}
	moved := r.moved
	r.moved = false
	return moved
}

func (r *relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	for r.held {
		r.next.Wait()
	}
	conn := r.conn
	r.mu.Unlock()
	return conn.Write(b)
}

func (r *relay) Close() error                       { return r.current().Close() }
func (r *relay) LocalAddr() net.Addr                { return r.current().LocalAddr() }
func (r *relay) RemoteAddr() net.Addr               { return r.current().RemoteAddr() }
func (r *relay) SetDeadline(t time.Time) error      { return r.current().SetDeadline(t) }
func (r *relay) SetReadDeadline(t time.Time) error  { return r.current().SetReadDeadline(t) }
func (r *relay) SetWriteDeadline(t time.Time) error { return r.current().SetWriteDeadline(t) }

// output is what a command prints. Until it is let go, who writes to it waits.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
	gate  chan struct{} // nil: it is open
}

func (o *output) Write(b []byte) (int, error) {
	if o.gate != nil {
		<-o.gate
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}
