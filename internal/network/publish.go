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

// maxClients bounds how many connections there are to one published port. Who comes then waits to be accepted.
const maxClients = 256

// guestPatience is how long the machine may take to answer.
const guestPatience = 10 * time.Second

// Port is a port of the machine that is one of the host's loopback address.
type Port struct {
	Host, Guest int

	stack    *Stack
	listener net.Listener
	clients  limit
	serving  sync.WaitGroup
	release  func()
	open     registry[stream]
	closed   atomic.Bool
}

// Publish has a port of 127.0.0.1 lead to one of the machine's. host 0 takes one that is free. Exists where it is taken.
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
	p.release = s.hold(p.end)
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
		return fault.New(fault.Exists, "publish port", subject, "port %d of 127.0.0.1 is taken", host).WithHint("--publish %d takes one that is free", guest)
	case errors.Is(err, syscall.EACCES):
		return fault.New(fault.Permission, "publish port", subject, "port %d of the host needs a privilege", host).WithHint("--publish %d takes one that is free", guest)
	}
	return fault.Wrap(err, "publish port", subject)
}

// accept serves clients until the listener is closed.
func (p *Port) accept() {
	for {
		p.clients <- struct{}{}
		conn, err := p.listener.Accept()
		if err != nil {
			p.clients.give()
			if p.closed.Load() {
				return
			}
			time.Sleep(10 * time.Millisecond) // no more files for now
			continue
		}
		p.serving.Go(func() {
			defer p.clients.give()
			p.serve(hostStream{conn.(*net.TCPConn)})
		})
	}
}

// serve connects a client with the machine.
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
		guest.Abort()
		client.Abort()
		return
	}
	splice(client, guest)
}

// Close closes the port and all connections to it. Idempotent.
func (p *Port) Close() {
	p.end()
	p.release()
	p.serving.Wait()
}

func (p *Port) end() {
	p.closed.Store(true)
	p.listener.Close()
	for _, c := range p.open.close() {
		c.Abort()
	}
}

// dialGuest connects to a port of the machine's, from the gateway.
func (s *Stack) dialGuest(port int) (guestStream, error) {
	ctx, cancel := context.WithTimeout(s.ctx, guestPatience)
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
