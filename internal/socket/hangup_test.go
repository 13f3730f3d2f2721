package socket

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// hangup returns a channel that is closed when AwaitHangup has returned.
func hangup(conn *net.UnixConn) chan struct{} {
	done := make(chan struct{})
	go func() {
		AwaitHangup(conn)
		close(done)
	}()
	return done
}

// pair returns two connected sockets. The first one has read the end of the connection, because the
// second one no longer sends.
func pair(t *testing.T) (here, peer *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: t.TempDir() + "/s"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if peer, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if here, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); peer.Close() })
	peer.CloseWrite()
	if n, err := here.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("read %d bytes, %v", n, err)
	}
	return here, peer
}

func TestAwaitHangup(t *testing.T) {
	for name, end := range map[string]func(here, peer *net.UnixConn){
		"the peer closes":   func(_, peer *net.UnixConn) { peer.Close() },
		"it is closed here": func(here, _ *net.UnixConn) { here.Close() },
		"a deadline":        func(here, _ *net.UnixConn) { here.SetReadDeadline(time.Now()) },
	} {
		here, peer := pair(t)
		done := hangup(here)
		select {
		case <-done:
			t.Errorf("%s: it returned while the peer reads", name)
		case <-time.After(50 * time.Millisecond):
		}
		end(here, peer)
		select {
		case <-done:
		case <-time.After(testenv.Patience):
			t.Fatalf("%s: it waits", name)
		}
	}
}
