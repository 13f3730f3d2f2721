package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// listen listens on a loopback address, and calls the function serve for each connection.
func listen(t *testing.T, address string, serve func(net.Conn)) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestDial checks connections to ports of a machine. Without isolation, these are ports of the
// host.
func TestDial(t *testing.T) {
	t.Parallel()
	h, _ := live(t)
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	dial := func(port int) net.Conn {
		conn, err := remote.DialPort(ctx, h.folder, port)
		check(t, err)
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(testenv.Patience))
		return conn
	}

	t.Run("content passes unchanged in both directions", func(t *testing.T) {
		conn := dial(listen(t, "127.0.0.1:0", func(c net.Conn) { io.Copy(c, c) }))
		sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<18) // 4 MiB
		go conn.Write(sent)
		received := make([]byte, len(sent))
		if _, err := io.ReadFull(conn, received); err != nil || !bytes.Equal(received, sent) {
			t.Errorf("content differs, %v", err)
		}
	})
	t.Run("a server may speak first, and at the IPv6 loopback address", func(t *testing.T) {
		conn := dial(listen(t, "[::1]:0", func(c net.Conn) { io.WriteString(c, "220 ready") }))
		if text, err := io.ReadAll(conn); string(text) != "220 ready" || err != nil {
			t.Errorf("read %q, %v", text, err)
		}
	})
	t.Run("close reaches the program after all that was written", func(t *testing.T) {
		got := make(chan string, 1)
		conn := dial(listen(t, "127.0.0.1:0", func(c net.Conn) {
			text, _ := io.ReadAll(c)
			got <- string(text)
		}))
		io.WriteString(conn, strings.Repeat("x", 100_000))
		check(t, conn.Close())
		select {
		case text := <-got:
			if len(text) != 100_000 {
				t.Errorf("the program read %d bytes", len(text))
			}
		case <-time.After(testenv.Patience):
			t.Error("the program's connection stays open")
		}
	})
	t.Run("a read has a deadline", func(t *testing.T) {
		conn := dial(listen(t, "127.0.0.1:0", func(c net.Conn) { io.Copy(io.Discard, c) }))
		conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		port := listen(t, "127.0.0.1:0", func(net.Conn) {})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		free := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if _, err := remote.DialPort(ctx, h.folder, free); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "refused") {
			t.Errorf("closed port: got %v", err)
		}
		for _, port := range []int{0, -1, 70000} {
			if _, err := remote.DialPort(ctx, h.folder, port); fault.KindOf(err) != fault.Invalid {
				t.Errorf("port %d: %v", port, err)
			}
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := remote.DialPort(canceled, h.folder, port); fault.KindOf(err) != fault.Canceled {
			t.Errorf("canceled: %v", err)
		}
	})
	t.Run("connections are bounded, and a closed one makes room", func(t *testing.T) {
		port := listen(t, "127.0.0.1:0", func(c net.Conn) { io.Copy(io.Discard, c) })
		var open []net.Conn
		for {
			conn, err := remote.DialPort(ctx, h.folder, port)
			if err != nil {
				if fault.KindOf(err) != fault.Exhausted {
					t.Errorf("after %d connections: %v", len(open), err)
				}
				break
			}
			defer conn.Close()
			if open = append(open, conn); len(open) > maxDialed {
				t.Fatalf("%d connections", len(open))
			}
		}
		open[0].Close()
		for end := time.Now().Add(testenv.Patience); ; time.Sleep(5 * time.Millisecond) {
			conn, err := remote.DialPort(ctx, h.folder, port)
			if err == nil {
				conn.Close()
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	})
}

// TestDialHalfClosed checks connections whose caller has sent everything.
func TestDialHalfClosed(t *testing.T) {
	t.Parallel()
	h, _ := live(t)
	dial := func(t *testing.T, serve func(net.Conn)) net.Conn {
		conn, err := remote.DialPort(context.Background(), h.folder, listen(t, "127.0.0.1:0", serve))
		check(t, err)
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(testenv.Patience))
		return conn
	}
	t.Run("a caller that has sent all waits for the answer", func(t *testing.T) {
		conn := dial(t, func(c net.Conn) {
			text, _ := io.ReadAll(c)
			time.Sleep(closePatience + 500*time.Millisecond)
			c.Write(bytes.ToUpper(text))
		})
		io.WriteString(conn, "question")
		check(t, conn.(interface{ CloseWrite() error }).CloseWrite())
		if text, err := io.ReadAll(conn); string(text) != "QUESTION" || err != nil {
			t.Errorf("read %q, %v", text, err)
		}
	})
	t.Run("close ends the connection even if the program does not", func(t *testing.T) {
		ended := make(chan struct{})
		conn := dial(t, func(c net.Conn) {
			defer close(ended)
			io.ReadAll(c)
			for _, err := c.Write([]byte("more")); err == nil; _, err = c.Write([]byte("more")) {
				time.Sleep(10 * time.Millisecond)
			}
		})
		check(t, conn.Close())
		select {
		case <-ended:
		case <-time.After(testenv.Patience):
			t.Error("the program's connection stays open")
		}
	})
}

// TestDialEndsWithMachine checks that an open connection ends when the machine is stopped.
func TestDialEndsWithMachine(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	conn, err := remote.DialPort(context.Background(), h.folder, listen(t, "127.0.0.1:0", func(c net.Conn) { io.Copy(io.Discard, c) }))
	check(t, err)
	defer conn.Close()
	check(t, c.Stop(context.Background(), "for the test", false))
	conn.SetDeadline(time.Now().Add(testenv.Patience))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still open: %v", err)
	}
}

// TestDialEndsWithMachineUnread checks that a client that does not read does not block a stop.
func TestDialEndsWithMachineUnread(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	filled := make(chan struct{})
	conn, err := remote.DialPort(context.Background(), h.folder, listen(t, "127.0.0.1:0", func(c net.Conn) {
		for err := error(nil); err == nil; {
			c.SetWriteDeadline(time.Now().Add(time.Second))
			_, err = c.Write(make([]byte, 1<<20))
		}
		close(filled)
	}))
	check(t, err)
	defer conn.Close()
	<-filled
	ctx, cancel := context.WithTimeout(t.Context(), closePatience+testenv.Patience)
	defer cancel()
	check(t, c.Stop(ctx, "for the test", false))
}
