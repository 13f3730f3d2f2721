package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// server listens on a free port and calls the function serve for each connection. It returns a
// function that dials it.
func server(t *testing.T, serve func(*net.TCPConn)) Dial {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func open(t *testing.T, dial Dial) *Port {
	t.Helper()
	p, err := Listen(0, dial, func(err error) { t.Errorf("failed: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (p *Port) client(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Number))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testenv.Patience))
	return c.(*net.TCPConn)
}

func TestForward(t *testing.T) {
	p := open(t, server(t, func(c *net.TCPConn) { io.Copy(c, c) }))
	sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MiB
	var clients sync.WaitGroup
	for range 20 {
		c := p.client(t)
		clients.Go(func() {
			go func() {
				c.Write(sent)
				c.CloseWrite()
			}()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	clients.Wait()
}

// TestAnswerBeforeTheEnd checks that a client gets the whole answer, even if the server does not
// read all data of the client.
func TestAnswerBeforeTheEnd(t *testing.T) {
	p := open(t, server(t, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 10))
		io.WriteString(c, "too large")
		c.CloseWrite()
		io.Copy(io.Discard, c)
	}))
	c := p.client(t)
	go func() {
		for b := make([]byte, 4096); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	time.Sleep(50 * time.Millisecond)
	if got, err := io.ReadAll(c); string(got) != "too large" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestFailedConnection checks that a client gets a reset if its connection can't be opened, and
// that the port works afterwards.
func TestFailedConnection(t *testing.T) {
	works, failures := server(t, func(c *net.TCPConn) { io.WriteString(c, "hello") }), make(chan error, 10)
	var repaired atomic.Bool
	p, err := Listen(0, func(ctx context.Context) (net.Conn, error) {
		if !repaired.Load() {
			time.Sleep(100 * time.Millisecond) // wait until the client has connected
			return nil, errors.New("it is stopped")
		}
		return works(ctx)
	}, func(err error) { failures <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got, err := io.ReadAll(p.client(t)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("read %q, %v", got, err)
	}
	if err := <-failures; err.Error() != "it is stopped" {
		t.Error(err)
	}
	repaired.Store(true)
	if got, err := io.ReadAll(p.client(t)); string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if len(failures) > 0 {
		t.Errorf("one more failure: %v", <-failures)
	}
}

// TestClose checks that Close ends open connections, on both sides, and frees the port.
func TestClose(t *testing.T) {
	testenv.Eventually(t, "Close does not wait for the other sides", func() bool { return closeOpen(t) <= endPatience/2 })
}

// closeOpen closes a port with an open connection. It returns the duration of Close.
func closeOpen(t *testing.T) time.Duration {
	ended := make(chan struct{})
	p := open(t, server(t, func(c *net.TCPConn) {
		io.WriteString(c, "x")
		io.Copy(io.Discard, c)
		close(ended)
	}))
	c := p.client(t)
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.Close()
	took := time.Since(began)
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the client reads: %v", err)
	}
	select {
	case <-ended:
	case <-time.After(testenv.Patience):
		t.Error("the server's connection is open")
	}
	again, err := Listen(p.Number, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := Listen(p.Number, nil, nil); fault.KindOf(err) != fault.Exists {
		t.Errorf("a port in use: %v", err)
	}
	return took
}

// TestClientDisconnects checks that the connection to the server ends after the client disconnects,
// even if the server keeps it open.
func TestClientDisconnects(t *testing.T) {
	ended := make(chan struct{})
	p := open(t, server(t, func(c *net.TCPConn) {
		defer close(ended)
		for {
			if _, err := c.Write([]byte("more")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}))
	c := p.client(t)
	io.ReadFull(c, make([]byte, 8))
	c.Close()
	select {
	case <-ended:
	case <-time.After(testenv.Patience):
		t.Error("the server's connection is open")
	}
}
