package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// links contains the addresses of both ends of the machine's link.
type links struct{ address, address6, gateway, gateway6 netip.Addr }

// wire sends and receives raw frames on the machine's link.
type wire struct {
	links
	socket       int
	mac, routers net.HardwareAddr

	mu    sync.Mutex
	heard map[netip.AddrPort]string // results by remote address and port
}

func openWire(name string, own links) (*wire, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(swapped(unix.ETH_P_ALL)))
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: swapped(unix.ETH_P_ALL), Ifindex: i.Index}); err != nil {
		return nil, fmt.Errorf("bind a packet socket: %w", err)
	}
	w := &wire{links: own, socket: socket, mac: i.HardwareAddr, heard: map[netip.AddrPort]string{}}
	found := make(chan net.HardwareAddr, 1)
	go w.listen(found)
	for range 150 { // half a minute, because the gateway can be slow on a busy host
		if err := w.send(w.arp(1, own.address, own.gateway)); err != nil {
			return nil, fmt.Errorf("send a frame: %w", err)
		}
		select {
		case w.routers = <-found:
			return w, nil
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil, errors.New("the gateway does not say who it is")
}

func swapped(n uint16) uint16 { return n<<8 | n>>8 }

// send sends a frame. If the send queue is full, it waits.
func (w *wire) send(frame []byte) error {
	for {
		_, err := unix.Write(w.socket, frame)
		switch err {
		case unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
			time.Sleep(time.Millisecond)
		default:
			return err
		}
	}
}

// listen receives frames and records them.
func (w *wire) listen(gateway chan<- net.HardwareAddr) {
	b := make([]byte, 1<<17)
	for {
		n, err := unix.Read(w.socket, b)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return
		}
		if n < 34 || string(b[6:12]) == string(w.mac) {
			continue
		}
		kind, content := binary.BigEndian.Uint16(b[12:]), b[14:n]
		if kind == unix.ETH_P_ARP && len(content) >= 28 && content[7] == 2 {
			a := netip.AddrFrom4([4]byte(content[14:]))
			if a == w.gateway {
				select {
				case gateway <- net.HardwareAddr(string(content[8:14])):
				default:
				}
			}
			w.note(a, nil, 0, answered)
			continue
		}
		w.hear(kind, content)
	}
}

// hear records the sender of an IP packet, and what the packet means for an attack.
func (w *wire) hear(kind uint16, b []byte) {
	var from netip.Addr
	var protocol byte
	var body []byte
	switch {
	case kind == unix.ETH_P_IP && len(b) >= 20 && len(b) >= int(b[0]&0xf)*4:
		from, protocol, body = netip.AddrFrom4([4]byte(b[12:])), b[9], b[int(b[0]&0xf)*4:]
	case kind == unix.ETH_P_IPV6 && len(b) >= 40:
		from, protocol, body = netip.AddrFrom16([16]byte(b[8:])), b[6], b[40:]
	default:
		return
	}
	switch {
	case protocol == unix.IPPROTO_TCP && len(body) >= 20 && body[13]&4 != 0:
		w.note(from, body, protocol, refused)
	case protocol == unix.IPPROTO_TCP && len(body) >= 20 && body[13]&0x12 == 0x12:
		w.note(from, body, protocol, connected)
	case protocol == unix.IPPROTO_ICMP && len(body) >= 32 && (body[0] == 3 || body[0] == 11 || body[0] == 12):
		w.note(netip.AddrFrom4([4]byte(body[24:])), body[30:], body[17], refused)
	case protocol == unix.IPPROTO_ICMPV6 && len(body) >= 52 && body[0] < 128:
		w.note(netip.AddrFrom16([16]byte(body[32:])), body[50:], body[14], refused)
	case protocol == unix.IPPROTO_ICMPV6 && len(body) > 0 && body[0] != 129 && body[0] != 136:
	default:
		w.note(from, body, protocol, answered)
	}
}

// note records a result for an address and for the first port in a transport header. A refusal does
// not replace a worse result.
func (w *wire) note(a netip.Addr, header []byte, protocol byte, what string) {
	var port uint16
	if (protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_UDP) && len(header) >= 2 {
		port = binary.BigEndian.Uint16(header)
	}
	at := netip.AddrPortFrom(a, port)
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.heard[at]; was == "" || was == refused {
		w.heard[at] = what
	}
}

// try sends the frames of a shape and waits for an answer from the target.
func (w *wire) try(t task, shape shape) result {
	a := aim{name: t.Name}
	var err error
	if a.AddrPort, err = netip.ParseAddrPort(t.To); err != nil {
		return result{Outcome: failed, Detail: err.Error()}
	}
	if t.Via != "" {
		if a.via, err = netip.ParseAddr(t.Via); err != nil {
			return result{Outcome: failed, Detail: err.Error()}
		}
	}
	for _, frame := range shape(w, a) {
		if err := w.send(frame); err != nil {
			return result{Outcome: failed, Detail: "send: " + err.Error()}
		}
	}
	r := result{Outcome: silence}
	for end := time.Now().Add(*patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		heard := cmp.Or(w.heard[a.AddrPort], w.heard[netip.AddrPortFrom(a.Addr(), 0)])
		w.mu.Unlock()
		if heard == connected || heard == answered {
			return result{Outcome: heard}
		}
		if heard != "" {
			r.Outcome = heard
		}
	}
	return r
}
