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
	// maxFlows bounds how many pairs of UDP addresses of a machine talk at a time, and maxAskers how many ports and connections it asks the name server from: most
	// programs take another port for each question, which is kept for askPatience.
	maxFlows  = 256
	maxAskers = 1024
	// maxAsking bounds the questions that are being answered, maxAskingAtOnce those of one port, and maxQuery the bytes of one.
	maxAsking       = 64
	maxAskingAtOnce = 8
	maxQuery        = 1232
	// flowPatience is how long a pair may be silent before it is forgotten, and unansweredPatience how long it is waited for a first answer: a machine that asks
	// many who never answer keeps itself from others for no longer.
	flowPatience       = 2 * time.Minute
	unansweredPatience = 10 * time.Second
	// askPatience is how long the machine may take for another question from the same port.
	askPatience = time.Second
	maxDatagram = 1<<16 - 1
)

// acceptUDP decides on the first packet of a flow. Where it says no, the machine is told that nobody is there.
func (s *Stack) acceptUDP(r *udp.ForwarderRequest) bool {
	to := target(r.ID())
	limit := s.flows
	if to.Port() == dnsPort {
		limit = s.askers
	}
	rec := Record{Time: time.Now(), Protocol: "udp", Address: to.Addr(), Port: to.Port()}
	if to.Port() != dnsPort {
		var ok bool
		if rec, ok = s.decide("udp", to); !ok {
			return false
		}
	}
	if !limit.take() {
		s.refuse(rec, "too many connections")
		return false
	}
	var queue waiter.Queue
	ep, err := r.CreateEndpoint(&queue)
	if err != nil {
		limit.give()
		return false
	}
	guest := gonet.NewUDPConn(&queue, ep)
	if !s.begin() {
		limit.give()
		guest.Close()
		return true
	}
	go func() {
		defer s.running.Done()
		defer limit.give()
		defer s.hold(func() { end(guest) })()
		defer guest.Close()
		if to.Port() == dnsPort {
			s.answerNames(guest)
		} else {
			s.converse(guest, rec)
		}
	}()
	return true
}

// answerNames answers questions from one port of the machine's: several at a time, for a program asks for both kinds of addresses at once.
func (s *Stack) answerNames(guest *gonet.UDPConn) {
	var answering sync.WaitGroup
	defer answering.Wait()
	atOnce := newLimit(maxAskingAtOnce)
	for {
		query := make([]byte, maxQuery)
		guest.SetReadDeadline(time.Now().Add(askPatience))
		n, err := guest.Read(query)
		if err != nil {
			return
		}
		if !atOnce.take() {
			continue // it will ask again
		}
		if !s.asking.take() {
			atOnce.give()
			continue
		}
		answering.Go(func() {
			defer atOnce.give()
			defer s.asking.give()
			if answer := s.dns.Answer(s.ctx, query[:n], false); answer != nil {
				guest.Write(answer)
			}
		})
	}
}

// converse passes datagrams on, both ways, until nobody has said anything for a while.
func (s *Stack) converse(guest *gonet.UDPConn, rec Record) {
	host, err := s.cfg.Dial(s.ctx, "udp", netip.AddrPortFrom(rec.Address, rec.Port))
	if err != nil {
		s.fail(rec, err)
		return
	}
	defer s.hold(func() { end(host) })()
	defer host.Close()
	done, _ := s.open.add(rec)
	idle := time.AfterFunc(unansweredPatience, func() {
		end(guest)
		end(host)
	})
	defer idle.Stop()
	var received atomic.Int64
	var answered atomic.Bool
	patience := func() time.Duration {
		if answered.Load() {
			return flowPatience
		}
		return unansweredPatience
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		received.Store(relay(guest, host, func() {
			answered.Store(true)
			idle.Reset(patience())
		}))
		end(guest)
	}()
	rec.Sent = relay(host, guest, func() { idle.Reset(patience()) })
	end(host)
	<-back
	done()
	rec.Received, rec.Took = received.Load(), time.Since(rec.Time)
	s.records.record(rec)
}

// end has whoever reads stop.
func end(c net.Conn) { c.SetDeadline(time.Unix(1, 0)) }

// relay passes datagrams on in one direction, and tells of each.
func relay(to, from net.Conn, heard func()) (passed int64) {
	datagram := make([]byte, maxDatagram)
	for {
		n, err := from.Read(datagram)
		if err != nil {
			return passed
		}
		heard()
		if _, err := to.Write(datagram[:n]); err == nil {
			passed += int64(n)
		}
	}
}
