package network

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// inNamespace runs shell commands that configure a new network namespace. Then it runs a test in
// the namespace.
func inNamespace(t *testing.T, commands string, test func(t *testing.T)) {
	t.Helper()
	testenv.NeedsRoot(t, "make a network namespace")
	done := make(chan error, 1)
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread and its namespace end with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		cmd := exec.Command("sh", "-ec", commands)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
			return
		}
		test(t)
	}()
	if err := <-done; err != nil {
		testenv.Lacks(t, "no network namespaces: ", err)
	}
}

// TestLocalRoutes checks that an address with a local route counts as an address of the host, even
// if no interface has the address.
func TestLocalRoutes(t *testing.T) {
	inNamespace(t, `
		ip link set lo up
		ip link add cable type veth peer name far
		ip link set far up
		ip addr add 45.45.46.5/24 dev cable
		ip -6 addr add 2a0a:46::5/64 dev cable nodad
		ip link set cable up
		ip route add default via 45.45.46.1
		ip -6 route add default via 2a0a:46::1
		ip route add local 45.45.50.0/24 dev lo
		ip route add local 45.45.51.0/24 dev lo src 45.45.46.5
		ip -6 route add local 2a0a:50::/48 dev lo
		ip -6 route add local 64:ff9b::/96 dev lo
		ip route add blackhole 45.45.52.0/24
		ip route add unreachable 45.45.53.0/24`, func(t *testing.T) {
		var own hostAddresses
		for _, row := range []struct {
			own       bool
			addresses string
		}{
			{true, "127.0.0.1 127.9.9.9 ::1 45.45.46.5 45.45.46.255 45.45.46.0 2a0a:46::5 45.45.50.0 45.45.50.9 45.45.51.9 ::ffff:45.45.50.9 2a0a:50::1 2a0a:50:0:ffff::9 64:ff9b::808:808"},
			{false, "45.45.46.6 45.45.49.1 45.45.52.1 45.45.53.1 8.8.8.8 2a0a:46::6 2a0a:51::1"},
		} {
			for _, a := range strings.Fields(row.addresses) {
				if got := own.has(netip.MustParseAddr(a)); got != row.own {
					t.Errorf("%s: %t", a, got)
				}
			}
		}
		// If a route is added after the policy's decision, dialHost must refuse the connection.
		l, err := net.Listen("tcp4", "0.0.0.0:0")
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		defer cancel()
		for _, a := range []string{"45.45.50.9", "45.45.51.9", "127.0.0.1"} {
			to := netip.AddrPortFrom(netip.MustParseAddr(a), l.Addr().(*net.TCPAddr).AddrPort().Port())
			if conn, err := dialHost(ctx, "tcp", to); err == nil || !strings.Contains(err.Error(), "address of the host") {
				t.Errorf("a connection to %s: %v, %v", to, conn, err)
			}
		}
	})
}

// FuzzRouteAnswer checks that isLocalRoute does not panic for any answer.
func FuzzRouteAnswer(f *testing.F) {
	f.Add(routeRequest(netip.MustParseAddr("45.45.50.9")))
	f.Fuzz(func(t *testing.T, answer []byte) { isLocalRoute(answer) })
}
