package machinetest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// movableConn is a link that can be moved from one machine to another. After a move one read fails,
// to report the move.
type movableConn struct {
	mu    sync.Mutex
	next  *sync.Cond
	conn  net.Conn
	moved bool // the link was moved, and no read has reported that yet
	held  bool // the link is about to be moved
}

func newMovableConn(conn net.Conn) *movableConn {
	r := &movableConn{conn: conn}
	r.next = sync.NewCond(&r.mu)
	return r
}

var errMoved = errors.New("the link leads to another machine now")

func (r *movableConn) current() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// hold makes new reads and writes wait until the link is moved to the next machine. A read that has
// already begun can still return data from the first machine.
func (r *movableConn) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = true
}

func (r *movableConn) to(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn, r.moved, r.held = conn, true, false
	r.next.Broadcast()
}

func (r *movableConn) Read(b []byte) (int, error) {
	if r.fails() {
		return 0, errMoved
	}
	n, err := r.current().Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && r.fails() {
		err = errMoved
	}
	return n, err
}

// fails waits for the move if the link is on hold. It reports whether the link was moved since the
// last call.
func (r *movableConn) fails() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held {
		r.next.Wait()
	}
	moved := r.moved
	r.moved = false
	return moved
}

func (r *movableConn) Write(b []byte) (int, error) {
	r.mu.Lock()
	for r.held {
		r.next.Wait()
	}
	conn := r.conn
	r.mu.Unlock()
	return conn.Write(b)
}

func (r *movableConn) Close() error                       { return r.current().Close() }
func (r *movableConn) LocalAddr() net.Addr                { return r.current().LocalAddr() }
func (r *movableConn) RemoteAddr() net.Addr               { return r.current().RemoteAddr() }
func (r *movableConn) SetDeadline(t time.Time) error      { return r.current().SetDeadline(t) }
func (r *movableConn) SetReadDeadline(t time.Time) error  { return r.current().SetReadDeadline(t) }
func (r *movableConn) SetWriteDeadline(t time.Time) error { return r.current().SetWriteDeadline(t) }

// output collects the output of a command. If gate is not nil, Write blocks until gate is closed.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
	gate  chan struct{} // if nil, Write does not block
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
