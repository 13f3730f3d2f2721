package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxClients is the maximum number of connections to a published port. Additional clients wait in
// the listener's backlog.
const maxClients = 256

// guestTimeout is the maximum time for connecting to the machine.
const guestTimeout = 10 * time.Second

// Port forwards a port of the host's loopback address to a port of the machine.
type Port struct {
	Host, Guest int
	Wanted      int // the host port that the caller prefers; 0 if Host is that port

	stack    *Stack
	listener net.Listener
	clients  limit
	serving  sync.WaitGroup
	release  func()
	open     registry[stream]
	closed   atomic.Bool
}

// Publish forwards a port of 127.0.0.1 to a port of the machine. If host is 0, it picks a free
// port. It returns an Exists error if the port is taken.
func (s *Stack) Publish(host, guest int) (*Port, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(host)))
	if err != nil {
		return nil, unpublished(host, guest, err)
	}
	p := &Port{Host: listener.Addr().(*net.TCPAddr).Port, Guest: guest, stack: s, listener: listener, clients: newLimit(maxClients)}
	if !s.begin() {
		listener.Close()
		return nil, fault.New(fault.Unavailable, "publish port", strconv.Itoa(guest), "the machine has ended")
	}
	p.release = s.onClose(p.end)
	go func() {
		defer s.running.Done()
		p.accept()
		p.serving.Wait()
	}()
	return p, nil
}

func unpublished(host, guest int, err error) error {
	subject := fmt.Sprintf("%d:%d", host, guest)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fault.New(fault.Exists, "publish port", subject, "port %d of 127.0.0.1 is in use", host).WithHint("--publish %d picks a free port", guest)
	case errors.Is(err, syscall.EACCES):
		return fault.New(fault.Permission, "publish port", subject, "port %d of the host requires privileges", host).WithHint("--publish %d picks a free port", guest)
	}
	return fault.Wrap(err, "publish port", subject)
}

// accept serves clients until the listener is closed.
func (p *Port) accept() {
	for {
		p.clients <- struct{}{}
		conn, err := p.listener.Accept()
		if err != nil {
			p.clients.release()
			if p.closed.Load() {
				return
			}
			time.Sleep(10 * time.Millisecond) // probably out of file descriptors
			continue
		}
		p.serving.Go(func() {
			defer p.clients.release()
			p.serve(hostStream{conn.(*net.TCPConn)})
		})
	}
}

// serve connects a client to the port of the machine.
func (p *Port) serve(client hostStream) {
	remove, ok := p.open.add(client)
	defer remove()
	if !ok {
		client.Abort()
		return
	}
	client.SetKeepAliveConfig(keepAlive)
	guest, err := p.stack.dialGuest(p.Guest)
	if err != nil {
		client.Abort()
		return
	}
	remove, ok = p.open.add(guest)
	defer remove()
	if !ok {
		client.Abort()
		guest.Abort()
		return
	}
	splice(client, guest, new(atomic.Int64), new(atomic.Int64))
}

// Close closes the port and all its connections. It does not wait for the machine. It is
// idempotent.
func (p *Port) Close() {
	p.end()
	p.release()
}

func (p *Port) end() {
	p.closed.Store(true)
	p.listener.Close()
	for _, c := range p.open.close() {
		if guest, ok := c.(guestStream); ok {
			p.stack.reset(guest)
		} else {
			c.Abort()
		}
	}
}

// dialGuest connects from the gateway to a port of the machine.
func (s *Stack) dialGuest(port int) (guestStream, error) {
	ctx, cancel := context.WithTimeout(s.ctx, guestTimeout)
	defer cancel()
	var queue waiter.Queue
	ep, failed := s.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, &queue)
	if failed != nil {
		return guestStream{}, errors.New(failed.String())
	}
	entry, ready := waiter.NewChannelEntry(waiter.WritableEvents)
	queue.EventRegister(&entry)
	defer queue.EventUnregister(&entry)
	to := netip.AddrPortFrom(s.cfg.Plan.Address.Addr(), uint16(port))
	failed = ep.Bind(tcpip.FullAddress{NIC: nic, Addr: address(s.cfg.Plan.Gateway)})
	if failed == nil {
		failed = ep.Connect(tcpip.FullAddress{NIC: nic, Addr: address(to.Addr()), Port: to.Port()})
	}
	if _, started := failed.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ready:
			failed = ep.LastError()
		case <-ctx.Done():
			ep.Close()
			return guestStream{}, context.Cause(ctx)
		}
	}
	if failed != nil {
		ep.Close()
		return guestStream{}, errors.New(failed.String())
	}
	return newGuestStream(&queue, ep), nil
}
