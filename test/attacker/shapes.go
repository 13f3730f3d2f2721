package main

import (
	"encoding/binary"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// aim is the target of a frame.
type aim struct {
	netip.AddrPort
	via  netip.Addr
	name string
}

// shape builds frames that try to reach a target.
type shape func(w *wire, a aim) [][]byte

// sport is the source port of raw packets. It differs between runs, because the stack stores flows
// for a while.
var sport = 20000 + uint16(os.Getpid()%20000)

// to returns a packet from this machine to an address.
func (w *wire) to(a netip.Addr) ip {
	if a.Is6() {
		return ip{from: w.address6, to: a}
	}
	return ip{from: w.address, to: a}
}

func (a aim) tcp(p ip) ip { return p.tcp(sport, a.Port(), syn, "", false) }
func (a aim) udp(p ip) ip { return p.udp(sport, a.Port(), a.name, 0) }

// synWith returns a shape that sends a SYN packet after a callback has modified it.
func synWith(change func(*ip, aim)) shape {
	return func(w *wire, a aim) [][]byte {
		p := w.to(a.Addr())
		change(&p, a)
		return w.frames(a.tcp(p))
	}
}

func datagramWith(change func(*ip, aim)) shape {
	return func(w *wire, a aim) [][]byte {
		p := w.to(a.Addr())
		change(&p, a)
		return w.frames(a.udp(p))
	}
}

// flagged returns a shape that sends a TCP segment with the given flags.
func flagged(flags byte, content string) shape {
	return func(w *wire, a aim) [][]byte {
		return w.frames(w.to(a.Addr()).tcp(sport, a.Port(), flags, content, false))
	}
}

// options returns a shape that sends a SYN with IP options. If routed is true, the options contain
// the second address of the target.
func options(kind byte, routed bool) shape {
	return synWith(func(p *ip, a aim) {
		p.options = []byte{kind, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0}
		if routed {
			copy(p.options[3:], a.via.AsSlice())
			copy(p.options[7:], a.Addr().AsSlice())
		}
	})
}

// extended returns a shape that sends a SYN after an IPv6 extension header.
func extended(kind byte, header func(a aim) []byte) shape {
	return func(w *wire, a aim) [][]byte {
		p := a.tcp(w.to(a.Addr()))
		h := header(a)
		h[0] = p.protocol
		p.protocol, p.body = kind, append(h, p.body...)
		return w.frames(p)
	}
}

// routing returns a shape that sends a SYN with an IPv6 routing header. The route includes the
// second address of the target.
func routing(kind byte) shape {
	return extended(unix.IPPROTO_ROUTING, func(a aim) []byte { return append([]byte{0, 2, kind, 1, 0, 0, 0, 0}, a.via.AsSlice()...) })
}

// encapsulated returns a shape that sends a packet inside a packet of another protocol.
func encapsulated(protocol byte, header ...byte) shape {
	return func(w *wire, a aim) [][]byte {
		inner := w.to(a.Addr())
		if a.via.IsValid() {
			inner = w.to(a.via)
		}
		p := w.to(a.Addr())
		p.protocol, p.body = protocol, append(header, a.udp(inner).bytes()...)
		return w.frames(p)
	}
}

// message returns a shape that sends an ICMP message.
func message(kind, code byte, content ...byte) shape {
	return func(w *wire, a aim) [][]byte { return w.frames(w.to(a.Addr()).icmp(kind, code, content)) }
}

// quoting returns a shape that sends an ICMP error. The error quotes a packet to the second address
// of the target, or to the target if there is none.
func quoting(kind, code byte) shape {
	return func(w *wire, a aim) [][]byte {
		inner := w.to(a.Addr())
		if a.via.IsValid() {
			inner = w.to(a.via)
		}
		return w.frames(w.to(a.Addr()).icmp(kind, code, append([]byte{0, 0, 0, 0}, a.udp(inner).bytes()...)))
	}
}

// tagged returns a shape that sends a SYN in a frame of another type. Some bytes precede the SYN.
func tagged(kind uint16, before ...byte) shape {
	return func(w *wire, a aim) [][]byte {
		return [][]byte{w.frame(kind, append(before, a.tcp(w.to(a.Addr())).bytes()...))}
	}
}

// addressed returns a shape that sends a SYN in a frame that is addressed to another MAC address.
func addressed(mac string) shape {
	return func(w *wire, a aim) [][]byte {
		f := w.frames(a.tcp(w.to(a.Addr())))
		copy(f[0], mac)
		return f
	}
}

// cut returns a shape that sends a frame with a SYN after a callback has modified the frame.
func cut(change func([]byte) []byte) shape {
	return func(w *wire, a aim) [][]byte { return [][]byte{change(w.frames(a.tcp(w.to(a.Addr())))[0])} }
}

// spoofed builds a SYN, a datagram and an echo request whose source is the second address of the
// target.
func spoofed(w *wire, a aim) [][]byte {
	p := w.to(a.Addr())
	p.from = a.via
	return w.frames(a.tcp(p), a.udp(p), p.echo(a.name))
}

func fragmented(change func([]ip) []ip, whole func(w *wire, a aim) ip) shape {
	return func(w *wire, a aim) [][]byte {
		p := whole(w, a)
		p.id = a.Port() ^ binary.BigEndian.Uint16(a.Addr().AsSlice()[2:])
		return w.frames(change(p.pieces(8))...)
	}
}

func datagram(w *wire, a aim) ip { return a.udp(w.to(a.Addr())) }
func segment(w *wire, a aim) ip  { return a.tcp(w.to(a.Addr())) }
func asTheyAre(all []ip) []ip    { return all }
func backwards(all []ip) (r []ip) {
	for i := range all {
		r = append(r, all[len(all)-1-i])
	}
	return r
}

// overlapping returns overlapping fragments. A later fragment overwrites the port in the first one.
func overlapping(all []ip) []ip {
	second := all[0]
	second.body = append([]byte(nil), second.body...)
	second.body[3] ^= 1
	all[0].body = append(append([]byte(nil), all[0].body...), all[1].body...)
	return append([]ip{all[0], second}, all[1:]...)
}

func beyond(all []ip) []ip {
	last := all[len(all)-1]
	last.fragment, last.body = 0x1fff, make([]byte, 64)
	return append(all[:len(all)-1], last)
}

func extension(bytes ...byte) func(aim) []byte {
	return func(aim) []byte { return append([]byte(nil), bytes...) }
}

// shapes lists all shapes by name.
var shapes = map[string]shape{
	"syn":      synWith(func(*ip, aim) {}),
	"datagram": datagramWith(func(*ip, aim) {}),
	"echo":     func(w *wire, a aim) [][]byte { return w.frames(w.to(a.Addr()).echo(a.name)) },

	"loose source route":  options(131, true),
	"strict source route": options(137, true),
	"record route":        options(7, false),
	"timestamp option":    options(68, false),
	"router alert":        synWith(func(p *ip, _ aim) { p.options = []byte{148, 4, 0, 0} }),
	"security option":     options(130, false),
	"unknown option":      options(222, false),
	"option too long":     synWith(func(p *ip, _ aim) { p.options = []byte{131, 255, 4, 0} }),
	"forty option bytes":  synWith(func(p *ip, _ aim) { p.options = make([]byte, 40) }),
	"routed datagram": datagramWith(func(p *ip, a aim) {
		p.options = append(append([]byte{131, 7, 4}, a.via.AsSlice()...), 0)
	}),
	"routing header 0":    routing(0),
	"routing header 2":    routing(2),
	"routing header 3":    routing(3),
	"segment routing":     routing(4),
	"hop by hop":          extended(unix.IPPROTO_HOPOPTS, extension(0, 0, 5, 2, 0, 0, 1, 0)),
	"jumbo payload":       extended(unix.IPPROTO_HOPOPTS, extension(0, 0, 0xc2, 4, 0, 1, 0, 0)),
	"destination options": extended(unix.IPPROTO_DSTOPTS, extension(0, 0, 1, 4, 0, 0, 0, 0)),
	"atomic fragment":     extended(unix.IPPROTO_FRAGMENT, extension(0, 0, 0, 0, 0, 0, 0, 66)),
	"first fragment":      extended(unix.IPPROTO_FRAGMENT, extension(0, 0, 0, 1, 0, 0, 0, 67)),
	"later fragment":      extended(unix.IPPROTO_FRAGMENT, extension(0, 0, 0, 8, 0, 0, 0, 68)),
	"authentication":      extended(unix.IPPROTO_AH, extension(0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
	"mobility":            extended(135, extension(0, 0, 1, 0, 0, 0, 0, 0)),
	"host identity":       extended(139, extension(0, 0, 1, 0, 0, 0, 0, 0)),
	"no next header":      func(w *wire, a aim) [][]byte { p := segment(w, a); p.protocol = unix.IPPROTO_NONE; return w.frames(p) },

	"tiny fragments":         fragmented(asTheyAre, segment),
	"fragments":              fragmented(asTheyAre, datagram),
	"backward fragments":     fragmented(backwards, datagram),
	"overlapping fragments":  fragmented(overlapping, datagram),
	"overlapping segments":   fragmented(overlapping, segment),
	"fragments without head": fragmented(func(all []ip) []ip { return all[1:] }, datagram),
	"fragments without end":  fragmented(func(all []ip) []ip { return all[:1] }, datagram),
	"fragments too far":      fragmented(beyond, datagram),
	"twice fragments":        fragmented(func(all []ip) []ip { return append(all, all...) }, datagram),
	"fragmented echo":        fragmented(asTheyAre, func(w *wire, a aim) ip { return w.to(a.Addr()).echo(a.name) }),

	"spoofed":                  spoofed,
	"wrong header checksum":    synWith(func(p *ip, _ aim) { p.wrong = true }),
	"wrong TCP checksum":       func(w *wire, a aim) [][]byte { return w.frames(w.to(a.Addr()).tcp(sport, a.Port(), syn, "", true)) },
	"wrong UDP checksum":       broken(func(w *wire, a aim) ip { return datagram(w, a) }, 6),
	"no UDP checksum":          zeroed(func(w *wire, a aim) ip { return datagram(w, a) }, 6),
	"wrong ICMP checksum":      broken(func(w *wire, a aim) ip { return w.to(a.Addr()).echo(a.name) }, 2),
	"UDP longer than it is":    func(w *wire, a aim) [][]byte { return w.frames(w.to(a.Addr()).udp(sport, a.Port(), a.name, 60000)) },
	"UDP shorter than a head":  func(w *wire, a aim) [][]byte { return w.frames(w.to(a.Addr()).udp(sport, a.Port(), a.name, 3)) },
	"from port 0":              func(w *wire, a aim) [][]byte { return w.frames(w.to(a.Addr()).tcp(0, a.Port(), syn, "", false)) },
	"IP longer than its frame": synWith(func(p *ip, _ aim) { p.length = 2000 }),
	"IP shorter than its head": synWith(func(p *ip, _ aim) { p.length = 10 }),
	"a head of 16 bytes":       synWith(func(p *ip, _ aim) { p.first = 0x44 }),
	"a head of 60 bytes":       synWith(func(p *ip, _ aim) { p.first = 0x4f }),
	"IP version 5":             synWith(func(p *ip, _ aim) { p.first = 0x55 }),
	"IP version 6 as 4":        synWith(func(p *ip, _ aim) { p.first = 0x65 }),
	"no hop left":              synWith(func(p *ip, _ aim) { p.ttl = 1 }),
	"half a head":              cut(func(f []byte) []byte { return f[:24] }),
	"a head alone":             cut(func(f []byte) []byte { return f[:34] }),
	"half a segment":           cut(func(f []byte) []byte { return f[:40] }),
	"bytes behind":             cut(func(f []byte) []byte { return append(f, make([]byte, 1000)...) }),
	"64 KiB": func(w *wire, a aim) [][]byte {
		return w.frames(w.to(a.Addr()).udp(sport, a.Port(), a.name+string(make([]byte, 65000)), 0))
	},

	"SYN and FIN":   flagged(syn|fin, ""),
	"SYN and RST":   flagged(syn|rst, ""),
	"SYN and ACK":   flagged(syn|ack, ""),
	"no flags":      flagged(0, ""),
	"all flags":     flagged(0x3f, ""),
	"ACK":           flagged(ack, ""),
	"data in ACK":   flagged(ack|push, "pyro-attack"),
	"data in SYN":   flagged(syn, "pyro-attack"),
	"FIN":           flagged(fin, ""),
	"RST":           flagged(rst, ""),
	"urgent in SYN": flagged(syn|urgent|push, ""),
	"to itself": func(w *wire, a aim) [][]byte {
		p := w.to(a.Addr())
		p.from = p.to
		return w.frames(p.tcp(a.Port(), a.Port(), syn, "", false))
	},

	"IP in IP": encapsulated(4), "IPv6 in IP": encapsulated(41), "GRE": encapsulated(47, 0, 0, 8, 0), "ESP": encapsulated(50, 0, 0, 0, 1, 0, 0, 0, 1), "AH": encapsulated(51, 4, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1),
	"SCTP": encapsulated(132, 0x9e, 0xda, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20), "UDP-Lite": encapsulated(136, 0x9e, 0xda, 0, 80, 0, 8, 0, 0), "OSPF": encapsulated(89), "PIM": encapsulated(103),
	"VRRP": encapsulated(112), "L2TP": encapsulated(115), "DCCP": encapsulated(33), "MPLS in IP": encapsulated(137), "raw IP": encapsulated(255), "protocol 0": encapsulated(0), "EtherIP": encapsulated(97, 0x30, 0),
	"IGMP query": encapsulated(2, 0x11, 0, 0xee, 0xff, 0, 0, 0, 0), "IGMP join": encapsulated(2, 0x16, 0, 0x09, 0xfe, 224, 0, 0, 1),

	"VLAN": tagged(0x8100, 0, 66, 8, 0), "QinQ": tagged(0x88a8, 0, 66, 0x81, 0, 0, 67, 8, 0), "LLC": tagged(60, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0), "LLC raw": tagged(46, 6, 6, 3),
	"PPPoE": tagged(0x8864, 0x11, 0, 0, 1, 0, 42, 0, 0x21), "MPLS": tagged(0x8847, 0, 1, 1, 64), "loopback frame": tagged(0x9000, 0, 0), "experimental": tagged(0x88b5), "no kind": tagged(0),
	"IPv6 kind, IPv4 packet": tagged(unix.ETH_P_IPV6), "802.1AE": tagged(0x88e5, 0, 0, 0, 0, 0, 0), "transparent bridging": tagged(0x6558),
	"broadcast frame": addressed("\xff\xff\xff\xff\xff\xff"), "multicast frame": addressed("\x01\x00\x5e\x00\x00\x01"), "another's frame": addressed("\x02\x66\x66\x66\x66\x66"),
	"a frame from another": cut(func(f []byte) []byte { copy(f[6:], "\x02\x66\x66\x66\x66\x66"); return f }),

	"ICMP timestamp": message(13, 0, make([]byte, 16)...), "ICMP address mask": message(17, 0, make([]byte, 8)...), "ICMP information": message(15, 0, 0, 0, 0, 0),
	"ICMP router advertisement": message(9, 0, 1, 2, 0xff, 0xff, 10, 66, 0, 1, 0, 0, 0, 0), "ICMP router solicitation": message(10, 0, 0, 0, 0, 0), "ICMP traceroute": message(30, 0, make([]byte, 16)...),
	"ICMP redirect": quoting(5, 1), "ICMP unreachable": quoting(3, 1), "ICMP source quench": quoting(4, 0), "ICMP extended echo": message(42, 0, 0, 1, 1, 1), "ICMP echo reply": message(0, 0, 0, 1, 0, 1),
	"ICMPv6 redirect": message(137, 0, make([]byte, 36)...), "ICMPv6 router advertisement": message(134, 0, make([]byte, 12)...), "ICMPv6 router solicitation": message(133, 0, 0, 0, 0, 0),
	"ICMPv6 node information": message(139, 0, make([]byte, 28)...), "ICMPv6 unreachable": quoting(1, 0), "ICMPv6 too big": quoting(2, 0), "MLD query": message(130, 0, make([]byte, 20)...), "MLD report": message(143, 0, 0, 0, 0, 0),
	"ICMPv6 neighbour solicitation": func(w *wire, a aim) [][]byte {
		return w.frames(w.to(a.Addr()).icmp(135, 0, append([]byte{0, 0, 0, 0}, a.Addr().AsSlice()...)))
	},
	"an echo with a code": func(w *wire, a aim) [][]byte { return w.frames(w.to(a.Addr()).icmp(8, 66, []byte{0x66, 0x66, 0, 1})) },

	"ARP request":     func(w *wire, a aim) [][]byte { return [][]byte{w.arp(1, w.address, a.Addr())} },
	"ARP from others": func(w *wire, a aim) [][]byte { return [][]byte{w.arp(1, a.via, a.Addr())} },
	"ARP reply":       func(w *wire, a aim) [][]byte { return [][]byte{w.arp(2, a.Addr(), w.gateway)} },
	"DHCP": func(w *wire, a aim) [][]byte {
		return w.frames(w.to(a.Addr()).udp(68, a.Port(), string(w.discover(a.Port())), 0))
	},
}

// broken returns a shape that sends a packet with a corrupted byte at the given offset of its
// payload.
func broken(whole func(w *wire, a aim) ip, at int) shape {
	return func(w *wire, a aim) [][]byte {
		p := whole(w, a)
		p.body[at] ^= 0x55
		return w.frames(p)
	}
}

func zeroed(whole func(w *wire, a aim) ip, at int) shape {
	return func(w *wire, a aim) [][]byte {
		p := whole(w, a)
		p.body[at], p.body[at+1] = 0, 0
		return w.frames(p)
	}
}
