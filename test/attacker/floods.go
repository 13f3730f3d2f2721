package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// floods lists attacks that send a large volume.
var floods = map[string]func(*wire, task) result{
	"flood": rawFlood, "dns-flood": dnsFlood, "flow-flood": flowFlood, "dns-tcp-flood": dnsTCPFlood, "connection-flood": connectionFlood, "hoard": holdConnections,
}

// rawFlood sends a shape repeatedly, each time with different ports or identifiers.
func rawFlood(w *wire, t task) result {
	to, err := netip.ParseAddrPort(t.To)
	if err != nil {
		return result{Outcome: failed, Detail: err.Error()}
	}
	began := time.Now()
	for i := range t.Times {
		a := aim{AddrPort: to, name: fmt.Sprint(t.Name, i)}
		var frames [][]byte
		n := uint16(i)
		switch t.Ask {
		case "ARP":
			frames = [][]byte{w.arp(1, w.address, netip.AddrFrom4([4]byte{10, 66, byte(i >> 8), byte(i)})), w.arp(1, w.address, w.gateway)}[i&1:][:1]
		case "DHCP":
			frames = w.frames(w.to(to.Addr()).udp(68, 67, string(w.discover(n)), 0))
		case "NDP":
			frames = w.frames(w.to(to.Addr()).icmp(135, 0, append([]byte{0, 0, 0, 0}, w.gateway6.AsSlice()...)))
		case "SYN":
			frames = w.frames(w.to(to.Addr()).tcp(1024+n, to.Port(), syn, "", false))
		case "UDP":
			frames = w.frames(w.to(to.Addr()).udp(sport, n, a.name, 0))
		case "fragments":
			p := datagram(w, a)
			p.id, p.fragment = n, more
			p.body = append(p.body, make([]byte, 1400-len(p.body))...)
			frames = w.frames(p)
		case "echo":
			frames = w.frames(w.to(to.Addr()).icmp(8, 0, binary.BigEndian.AppendUint16([]byte{0x66, 0x66}, n)))
		default:
			return result{Outcome: failed, Detail: "no such flood"}
		}
		for _, f := range frames {
			if err := w.send(f); err != nil {
				return result{Outcome: failed, Detail: err.Error()}
			}
		}
	}
	return result{Outcome: sent, Detail: fmt.Sprintf("%d in %v", t.Times, time.Since(began).Round(time.Millisecond))}
}

// discover returns a DHCPDISCOVER message.
func (w *wire) discover(id uint16) []byte {
	b := make([]byte, 240, 256)
	b[0], b[1], b[2] = 1, 1, 6
	binary.BigEndian.PutUint16(b[6:], id)
	copy(b[28:], w.mac)
	copy(b[236:], "\x63\x82\x53\x63")
	return append(b, 53, 1, 1, 255)
}

// flowFlood sends datagrams to many UDP ports.
func flowFlood(_ *wire, t task) result {
	c, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return failure(err)
	}
	defer c.Close()
	to, err := netip.ParseAddr(t.To)
	if err != nil {
		return result{Outcome: failed, Detail: err.Error()}
	}
	for i := range t.Times {
		c.WriteToUDPAddrPort([]byte(t.Name), netip.AddrPortFrom(to, uint16(10000+i)))
	}
	return result{Outcome: sent}
}

// dnsFlood sends queries for many names from a few ports.
func dnsFlood(_ *wire, t task) result {
	var all sync.WaitGroup
	for lane := range 8 {
		all.Go(func() {
			c, err := net.Dial("udp", t.To)
			if err != nil {
				return
			}
			defer c.Close()
			for i := range t.Times / 8 {
				c.Write(question(task{Name: t.Name, Ask: fmt.Sprintf("n%d-%d.flood.test A", lane, i)}))
			}
		})
	}
	all.Wait()
	return result{Outcome: sent}
}

// dnsTCPFlood opens many connections to a name server and sends nothing.
func dnsTCPFlood(_ *wire, t task) result { return opened(t, t.Times) }

// connectionFlood opens many connections and leaves them open for some time.
func connectionFlood(_ *wire, t task) result { return opened(t, t.Times) }

func opened(t task, times int) result {
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	for range 16 {
		all.Go(func() {
			for range times / 16 {
				if c, err := net.DialTimeout("tcp", t.To, time.Second); err == nil {
					mu.Lock()
					open = append(open, c)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for _, c := range open {
		c.Close()
	}
	return result{Outcome: sent, Detail: fmt.Sprintf("%d open at once", len(open))}
}

// holdConnections opens many connections to a server that does not read, and fills the buffers of
// the connections.
func holdConnections(_ *wire, t task) result {
	var all sync.WaitGroup
	var taken atomic.Int64
	next := make(chan struct{}, t.Times)
	for range t.Times {
		next <- struct{}{}
	}
	close(next)
	done := make(chan struct{})
	for range 8 {
		all.Go(func() {
			for range next {
				c, err := net.DialTimeout("tcp", t.To, time.Second)
				if err != nil {
					continue
				}
				go func() {
					<-done
					c.Close()
				}()
				b := make([]byte, 1<<20)
				for {
					c.SetDeadline(time.Now().Add(*patience / 4))
					n, err := c.Write(b)
					taken.Add(int64(n))
					if err != nil {
						break
					}
				}
			}
		})
	}
	all.Wait()
	fmt.Fprintln(os.Stderr, "hoarded", taken.Load()>>20, "MiB")
	time.Sleep(time.Second) // during this time the test checks the memory of the supervisor
	close(done)
	return result{Outcome: sent, Detail: fmt.Sprintf("%d MiB", taken.Load()>>20)}
}
