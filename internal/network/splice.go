package network

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/waiter"
)

// stream is one end of a TCP connection, of which each direction is closed by itself.
type stream interface {
	io.ReadWriteCloser
	CloseWrite() error
	Abort() // resets it
}

// guestStream is the machine's connection, as the stack has it.
type guestStream struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
}

func newGuestStream(queue *waiter.Queue, ep tcpip.Endpoint) guestStream {
	ep.SocketOptions().SetKeepAlive(true)
	return guestStream{gonet.NewTCPConn(queue, ep), ep}
}

func (s guestStream) Abort() { s.endpoint.Abort() }

// hostStream is the connection of the host.
type hostStream struct{ *net.TCPConn }

func (s hostStream) Abort() {
	s.SetLinger(0)
	s.Close()
}

// buffers are for copying, one for each direction of a connection.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// splice passes on what comes at either end, and that it ends: an end that is closed for writing closes the other for writing, and one that is reset resets it. It
// returns once both directions have ended, with both closed, and how much passed from a to b and back.
func splice(a, b stream) (forth, back int64) {
	done := make(chan struct{})
	go func() {
		back = pass(a, b)
		close(done)
	}()
	forth = pass(b, a)
	<-done
	a.Close()
	b.Close()
	return forth, back
}

func pass(to, from stream) int64 {
	buffer := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buffer)
	var passed int64
	for {
		n, err := from.Read(buffer[:])
		if n > 0 {
			m, failed := to.Write(buffer[:n])
			passed += int64(m)
			if failed != nil {
				err = failed
			}
		}
		if errors.Is(err, io.EOF) {
			if to.CloseWrite() == nil {
				return passed
			}
		}
		if err != nil {
			from.Abort()
			to.Abort()
			return passed
		}
	}
}

// keepAlive finds out within minutes that the far end of a connection is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}
