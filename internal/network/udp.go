package network

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	// maxFlows is the maximum number of UDP flows of a machine. maxAskers is the maximum number of
	// UDP ports and TCP connections that send DNS queries. Most programs use a new port for each
	// query. The port stays open for askTimeout.
	maxFlows  = 256
	maxAskers = 1024
	// maxAsking is the maximum number of concurrent queries. maxAskingAtOnce is the maximum number
	// of concurrent queries per port. maxQuery is the maximum size of a query, in bytes.
	maxAsking       = 64
	maxAskingAtOnce = 8
	maxQuery        = 1232
	// flowTimeout is the maximum idle time of a flow. If a flow has received no answer, it ends
	// after unansweredTimeout, so that a scan of many addresses does not block other flows for
	// long.
	flowTimeout       = 2 * time.Minute
	unansweredTimeout = 10 * time.Second
	// askTimeout is how long the server waits for another query from the same port.
	askTimeout  = time.Second
	maxDatagram = 1<<16 - 1
)

// acceptUDP handles the first packet of a flow. If it returns false, the stack sends ICMP port
// unreachable.
func (s *Stack) acceptUDP(r *udp.ForwarderRequest) bool {
	to := target(r.ID())
	limit := s.flows
	if to.Port() == dnsPort {
		limit = s.askers
	}
	var names []string
	rec := Record{Time: time.Now(), Protocol: "udp", Address: to.Addr(), Port: to.Port()}
	if to.Port() != dnsPort {
		var ok bool
		if rec, names, ok = s.decide("udp", to); !ok {
			return false
		}
	}
	if !limit.tryAcquire() {
		s.refuse(rec, "too many connections")
		return false
	}
	var queue waiter.Queue
	ep, err := r.CreateEndpoint(&queue)
	if err != nil {
		limit.release()
		return false
	}
	guest := gonet.NewUDPConn(&queue, ep)
	if !s.begin() {
		limit.release()
		guest.Close()
		return true
	}
	go func() {
		defer s.running.Done()
		defer limit.release()
		defer s.onClose(func() { end(guest) })()
		defer guest.Close()
		if to.Port() == dnsPort {
			s.answerNames(guest)
		} else {
			s.forwardUDP(guest, rec, names)
		}
	}()
	return true
}

// answerNames answers DNS queries from one port of the machine. Programs send the queries for A and
// AAAA at the same time, so answerNames handles several queries concurrently.
func (s *Stack) answerNames(guest *gonet.UDPConn) {
	var answering sync.WaitGroup
	defer answering.Wait()
	atOnce := newLimit(maxAskingAtOnce)
	for {
		query := make([]byte, maxQuery)
		guest.SetReadDeadline(time.Now().Add(askTimeout))
		n, err := guest.Read(query)
		if err != nil {
			return
		}
		if !atOnce.tryAcquire() {
			continue // the client will retry
		}
		if !s.asking.tryAcquire() {
			atOnce.release()
			continue
		}
		answering.Go(func() {
			defer atOnce.release()
			defer s.asking.release()
			if answer := s.dns.Answer(s.ctx, query[:n], false); answer != nil {
				guest.Write(answer)
			}
		})
	}
}

// forwardUDP copies datagrams in both directions until the flow has been idle for too long.
func (s *Stack) forwardUDP(guest *gonet.UDPConn, rec Record, names []string) {
	host, err := s.cfg.Dial(s.ctx, "udp", netip.AddrPortFrom(rec.Address, rec.Port))
	if err != nil {
		s.fail(rec, err)
		return
	}
	defer s.onClose(func() { end(host) })()
	defer host.Close()
	done := s.track(rec, names, func() {
		end(guest)
		end(host)
	})
	idle := time.AfterFunc(unansweredTimeout, func() {
		end(guest)
		end(host)
	})
	defer idle.Stop()
	var received atomic.Int64
	var answered atomic.Bool
	timeout := func() time.Duration {
		if answered.Load() {
			return flowTimeout
		}
		return unansweredTimeout
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		received.Store(copyDatagrams(guest, host, func() {
			answered.Store(true)
			idle.Reset(timeout())
		}, &s.got))
		end(guest)
	}()
	sent := copyDatagrams(host, guest, func() { idle.Reset(timeout()) }, &s.sent)
	end(host)
	<-back
	rec = done()
	rec.Sent, rec.Received, rec.Took = sent, received.Load(), time.Since(rec.Time)
	s.records.record(rec)
}

// end unblocks all reads from c.
func end(c net.Conn) { c.SetDeadline(time.Unix(1, 0)) }

// copyDatagrams copies datagrams in one direction and calls the callback for each datagram. It
// returns the number of bytes. It adds each datagram to the parameter total when it has copied the
// datagram.
func copyDatagrams(to, from net.Conn, received func(), total *atomic.Int64) (passed int64) {
	datagram := make([]byte, maxDatagram)
	for {
		n, err := from.Read(datagram)
		if err != nil {
			return passed
		}
		received()
		if _, err := to.Write(datagram[:n]); err == nil {
			passed += int64(n)
			total.Add(int64(n))
		}
	}
}
