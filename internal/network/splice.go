package network

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/waiter"
)

// stream is one end of a TCP connection. Each direction can be closed independently of the other.
type stream interface {
	io.ReadWriteCloser
	CloseWrite() error
	SetReadDeadline(time.Time) error
	Abort() // sends a reset
}

// guestStream is the end of a TCP connection that leads to the machine.
type guestStream struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
}

func newGuestStream(queue *waiter.Queue, ep tcpip.Endpoint) guestStream {
	ep.SocketOptions().SetKeepAlive(true)
	return guestStream{gonet.NewTCPConn(queue, ep), ep}
}

func (s guestStream) Abort() { s.endpoint.Abort() }

// hostStream is the end of a TCP connection that leads to the host or a remote address.
type hostStream struct{ *net.TCPConn }

func (s hostStream) Abort() {
	s.SetLinger(0)
	s.Close()
}

// buffers is a pool of copy buffers. Each direction of a connection uses one buffer.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// splice copies data between a and b in both directions until both directions have ended, then
// closes a and b. It also forwards half-closes and resets. It returns the number of bytes copied
// from a to b and from b to a. It adds them to totalForth and totalBack while it copies.
func splice(a, b stream, totalForth, totalBack *atomic.Int64) (forth, back int64) {
	done := make(chan struct{})
	go func() {
		back = copyStream(a, b, totalBack)
		close(done)
	}()
	forth = copyStream(b, a, totalForth)
	<-done
	a.Close()
	b.Close()
	return forth, back
}

// uploadTimeout is how long a sender can go on after the receiver has closed the connection.
const uploadTimeout = 10 * time.Second

// copyStream copies data in one direction. If the receiver no longer accepts data, copyStream
// discards the rest, because the other direction can still contain the receiver's answer.
func copyStream(to, from stream, total *atomic.Int64) int64 {
	buffer := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buffer)
	var passed int64
	discard := false
	for {
		n, err := from.Read(buffer[:])
		if n > 0 && !discard {
			m, failed := to.Write(buffer[:n])
			passed += int64(m)
			total.Add(int64(m))
			if failed != nil {
				discard = true
				from.SetReadDeadline(time.Now().Add(uploadTimeout))
			}
		}
		if errors.Is(err, io.EOF) {
			to.CloseWrite() // can fail like a write
			return passed
		}
		if err != nil {
			from.Abort()
			to.Abort()
			return passed
		}
	}
}

// keepAlive makes the kernel detect a dead peer within minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}
