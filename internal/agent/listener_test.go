package agent

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestTableAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F40":                         "127.0.0.1:8000",
		"00000000:0016":                         "0.0.0.0:22",
		"0000000000000000FFFF00000100007F:1F40": "127.0.0.1:8000",
		"00000000000000000000000001000000:FFFF": "[::1]:65535",
		"B80D0120000000000000000001000000:0050": "[2001:db8::1]:80",
	} {
		if got, ok := tableAddress(text); !ok || got.String() != want {
			t.Errorf("%s: %s, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", ":", "0100007F", "0100007F:10000", "01007F:1F40", "0100007F00:1F40", "0100007G:1F40", "0100007F0100007F:1F40"} {
		if got, ok := tableAddress(text); ok {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// TestListeners finds the sockets that get the connections to an address.
func TestListeners(t *testing.T) {
	all, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	port := uint16(all.Addr().(*net.TCPAddr).Port)
	for _, address := range []string{"127.0.0.1", "::1"} {
		sockets, err := listeners(netip.AddrPortFrom(netip.MustParseAddr(address), port))
		if err != nil || len(sockets) != 1 {
			t.Fatalf("%s: %v, %v", address, sockets, err)
		}
		if found, known := holds(os.Getpid(), sockets); !found || !known {
			t.Errorf("%s: %v, %v", address, found, known)
		}
		if found, _ := holds(os.Getppid(), sockets); found {
			t.Errorf("%s: the parent process seems to listen", address)
		}
	}
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	at := one.Addr().(*net.TCPAddr).AddrPort()
	if sockets, err := listeners(at); err != nil || len(sockets) != 1 {
		t.Errorf("%v, %v", sockets, err)
	}
	if sockets, err := listeners(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), at.Port())); err != nil || len(sockets) != 0 {
		t.Errorf("another address: %v, %v", sockets, err)
	}
}

// elsewhere is a program without processes that this process can see.
type elsewhere struct {
	Process
	Group
}

func (elsewhere) PID() int                   { return 0 }
func (elsewhere) Members(int) ([]int, error) { return nil, nil }

// TestCheckListener checks a port of this process. When the context ends, the search for the
// process ends too.
func TestCheckListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, p := &Server{execs: newExecs()}, &process{command: elsewhere{}, group: elsewhere{}}
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	belongs := fmt.Sprintf("port %d belongs to another program", l.Addr().(*net.TCPAddr).Port)
	if err := s.checkListener(t.Context(), p, conn, nil); err == nil || err.Error() != fmt.Sprintf("%s, %q", belongs, strings.TrimSpace(string(name))) {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, names := range []map[string]string{nil, {"x": "service x"}} {
		if err := s.checkListener(ended, p, conn, names); err == nil || err.Error() != belongs {
			t.Errorf("after the end of the context: %v", err)
		}
	}
}
