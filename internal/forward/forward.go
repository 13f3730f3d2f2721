// Package forward forwards TCP ports of the host's loopback address to a function that dials.
package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/socket"
)

const (
	// maxClients is the largest number of open connections of a port. Further clients wait in the
	// listener's backlog.
	maxClients = 256
	// endPatience is how long the other side of an ended connection can take to end it too.
	endPatience = 5 * time.Second
)

// Dial opens the connection to which one client is forwarded. If the connection has a method
// CloseWrite, the client can still read after it has sent everything. Otherwise the end of the
// client's data ends the connection.
type Dial func(ctx context.Context) (net.Conn, error)

// Port forwards clients of a port of 127.0.0.1. The caller must close it.
type Port struct {
	Number int // the port of 127.0.0.1

	listener *net.TCPListener
	dial     Dial
	failed   func(error)
	ctx      context.Context
	cancel   context.CancelFunc
	clients  chan struct{}
	serving  sync.WaitGroup
}

// Listen opens a port of 127.0.0.1. If number is 0, it chooses a free port. Each failure of dial is
// reported to the function failed, which is called from several goroutines. Listen returns an
// Exists error if the port is in use.
func Listen(number int, dial Dial, failed func(error)) (*Port, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(number)))
	if err != nil {
		return nil, errNotOpened(number, err)
	}
	p := &Port{Number: l.Addr().(*net.TCPAddr).Port, listener: l.(*net.TCPListener), dial: dial, failed: failed, clients: make(chan struct{}, maxClients)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.serving.Go(p.accept)
	return p, nil
}

const opListen = "listen on port"

func errNotOpened(number int, err error) error {
	subject := strconv.Itoa(number)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fault.New(fault.Exists, opListen, subject, "port %d of 127.0.0.1 is in use", number)
	case errors.Is(err, syscall.EACCES):
		return fault.New(fault.Permission, opListen, subject, "port %d of the host requires privileges", number)
	}
	return fault.Wrap(err, opListen, subject)
}

// Close closes the port and all its connections, and waits until they have ended.
func (p *Port) Close() {
	p.cancel()
	p.listener.Close()
	p.serving.Wait()
}

// accept serves clients until the port is closed.
func (p *Port) accept() {
	for {
		select {
		case p.clients <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		client, err := p.listener.AcceptTCP()
		if err == nil {
			p.serving.Go(func() {
				p.serve(client)
				<-p.clients
			})
			continue
		}
		<-p.clients
		if p.ctx.Err() != nil {
			return
		}
		time.Sleep(10 * time.Millisecond) // probably out of file descriptors
	}
}

// serve connects a client, until both sides have ended the connection. If the connection can't be
// opened, the client gets a reset.
func (p *Port) serve(client *net.TCPConn) {
	defer client.Close()
	client.SetKeepAliveConfig(keepAlive)
	target, err := p.dial(p.ctx)
	if err != nil {
		client.SetLinger(0)
		if p.ctx.Err() == nil {
			p.failed(err)
		}
		return
	}
	defer target.Close()
	stop := context.AfterFunc(p.ctx, func() {
		client.SetLinger(0)
		client.Close()
		target.Close()
	})
	defer stop()
	var sending sync.WaitGroup
	sending.Go(func() { send(target, client) })
	if _, err := io.Copy(client, target); err != nil {
		client.SetLinger(0)
		client.Close()
	} else {
		client.CloseWrite()
		client.SetReadDeadline(time.Now().Add(endPatience)) // the client gets no reset before it has read everything
	}
	sending.Wait()
}

// send copies the client's data, and ends the connection when the client disconnects.
func send(target net.Conn, client *net.TCPConn) {
	_, err := io.Copy(target, client)
	half, ok := target.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		io.Copy(io.Discard, client) // the target has ended the connection: wait until the client ends it too
	} else {
		socket.AwaitHangup(client)
	}
	target.Close()
}

// keepAlive makes the kernel detect a dead client within minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}
