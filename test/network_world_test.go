//go:build machine

package test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Ports that are served at all addresses of a namespace, in addition to the port of the name
// server.
var (
	tcpPorts = []int{22, 25, 80, 443, 853, 2375, 5432, 6443, 8080}
	udpPorts = []int{67, 69, 80, 123, 161, 443, 500, 853, 1900, 4789, 5353, 5432}
)

// watch serves all addresses of its namespace and prints the packets on an interface, until its
// input ends. It sends each line of the input as a marker.
func watch(device string) error {
	for _, port := range tcpPorts {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		go http.Serve(l, http.HandlerFunc(serveHTTP))
	}
	for _, port := range udpPorts {
		if err := serveUDP(port, func(q []byte) []byte { return append([]byte("world: "), q...) }); err != nil {
			return err
		}
	}
	unread, err := net.Listen("tcp", ":9") // the server never reads from its connections
	if err != nil {
		return err
	}
	defer unread.Close()
	z := &zone{turned: map[string]bool{}}
	if err := serveUDP(53, z.answer); err != nil {
		return err
	}
	if err := z.serveTCP(); err != nil {
		return err
	}
	s, err := sniff(device)
	if err != nil {
		return err
	}
	go s.run()
	s.say(arrival{Data: []byte(markPrefix + "ready")})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		for _, to := range []string{"127.0.0.1", worldCable} {
			c, err := net.Dial("udp", net.JoinHostPort(to, markPort))
			if err != nil {
				return err
			}
			c.Write(lines.Bytes())
			c.Close()
		}
	}
	return nil
}

// serveHTTP reads the content and returns the address that the client has reached. If the query has
// a parameter "to", it redirects to that URL.
func serveHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	if to := r.URL.Query().Get("to"); to != "" {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
		return
	}
	fmt.Fprintf(w, "world: %v\n", r.Context().Value(http.LocalAddrContextKey))
}

// serveUDP answers datagrams. The source of each answer is the address that the client has used.
func serveUDP(port int, answer func(question []byte) []byte) error {
	c, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) })
	if err != nil {
		return err
	}
	go func() {
		b, subject := make([]byte, 1<<16), make([]byte, 256)
		for {
			n, m, _, from, err := c.ReadMsgUDPAddrPort(b, subject)
			if err != nil {
				return
			}
			_, at, _, err := unix.ParseOneSocketControlMessage(subject[:m])
			if err != nil || len(at) < 16 {
				continue
			}
			if a := answer(b[:n]); a != nil {
				c.WriteMsgUDPAddrPort(a, unix.PktInfo6(&unix.Inet6Pktinfo{Addr: [16]byte(at)}), from)
			}
		}
	}()
	return nil
}

// sniffer reports the packets that arrive on an interface.
type sniffer struct {
	socket int
	device string
	out    *json.Encoder

	mu   sync.Mutex // guards out
	seen map[string]bool
}

func sniff(device string) (*sniffer, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	const all = uint16(unix.ETH_P_ALL&0xff)<<8 | unix.ETH_P_ALL>>8
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		return nil, err
	}
	unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}); err != nil {
		return nil, err
	}
	return &sniffer{socket: socket, device: device, out: json.NewEncoder(os.Stdout), seen: map[string]bool{}}, nil
}

func (s *sniffer) say(a arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Encode(a)
}

// run reports each combination of address and port once. It reports every DNS query.
func (s *sniffer) run() {
	b := make([]byte, 1<<17)
	for {
		n, from, err := unix.Recvfrom(s.socket, b, 0)
		if err != nil {
			if err == unix.EINTR {
				continue
			}
			return
		}
		if l, ok := from.(*unix.SockaddrLinklayer); !ok || l.Pkttype == unix.PACKET_OUTGOING || l.Protocol == htons(unix.ETH_P_ARP) {
			continue
		}
		a, ok := describe(b[:n])
		if !ok {
			continue
		}
		a.Where = s.device
		key := a.Protocol + " " + a.To
		if asks := len(a.Data) > 0 && (strings.HasSuffix(a.To, ":53") || strings.HasSuffix(a.To, ":"+markPort)); s.seen[key] && !asks {
			continue
		}
		s.seen[key] = true
		s.say(a)
	}
}

func htons(n uint16) uint16 { return n<<8 | n>>8 }

// describe describes a packet. ok is false for answers, and for packets that every link needs.
func describe(b []byte) (a arrival, ok bool) {
	if len(b) < 20 {
		return a, false
	}
	protocol, content := b[9], b[min(len(b), int(b[0]&0xf)*4):]
	var to netip.Addr
	if b[0]>>4 == 4 {
		to = netip.AddrFrom4([4]byte(b[16:]))
		if binary.BigEndian.Uint16(b[6:])&0x1fff != 0 { // a later fragment
			return a, false
		}
	} else {
		if len(b) < 40 {
			return a, false
		}
		protocol, content, to = b[6], b[40:], netip.AddrFrom16([16]byte(b[24:]))
	}
	port := func(protocol string, header int) arrival {
		if len(content) < 4 {
			return arrival{Protocol: protocol, To: to.String()}
		}
		at := netip.AddrPortFrom(to, binary.BigEndian.Uint16(content[2:]))
		return arrival{Protocol: protocol, To: at.String(), Data: content[min(header, len(content)):min(len(content), header+512)]}
	}
	switch protocol {
	case unix.IPPROTO_TCP:
		if len(content) < 20 {
			return a, false
		}
		return port("tcp", int(content[12]>>4)*4), true
	case unix.IPPROTO_UDP:
		return port("udp", 8), true
	case unix.IPPROTO_ICMP:
		return arrival{Protocol: "icmp", To: to.String()}, len(content) > 0 && content[0] != 0 && content[0] != 3 // ignores echo replies and errors
	case unix.IPPROTO_ICMPV6:
		switch {
		case len(content) == 0, content[0] == 129, content[0] < 128, content[0] >= 130 && content[0] <= 136, content[0] == 143:
			return a, false
		}
		return arrival{Protocol: "icmpv6", To: to.String()}, true
	case 0: // the MLD packets of the host itself
		if to.IsMulticast() {
			return a, false
		}
	}
	return arrival{Protocol: fmt.Sprint("ip", protocol), To: to.String()}, true
}
