package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// connect opens a connection to the server, and sends text.
func (w *world) connect(text string) net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	w.check(err)
	w.t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, text)
	w.check(err)
	conn.SetReadDeadline(time.Now().Add(testenv.Patience))
	return conn
}

// TestMissingBodies checks that the server closes the connections of clients that announce a body
// and do not send it.
func TestMissingBodies(t *testing.T) {
	w := newWorld(t)
	w.server.quiet = 3 * time.Second
	preview := "8000-" + w.create().ID + ".localhost"
	all := map[string]struct {
		host, path, key string
		status          int
	}{
		"without a key": {"localhost", "/v1/sandboxes", "none", 401}, "with a key": {"localhost", "/v1/sandboxes", "full", 408}, "login": {"localhost", "/v1/auth/login", "none", 408},
		"MCP without a key": {"localhost", mcpPath, "none", 401}, "MCP": {"localhost", mcpPath, "full", 408}, "no route": {"localhost", "/v2", "none", 404},
		"a preview": {preview, "/", "none", 403},
	}
	conns := map[string]net.Conn{} // all wait at the same time
	for what, c := range all {
		conns[what] = w.connect(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: 10\r\n\r\n{", c.path, c.host, keyHeader, w.keys[c.key]))
	}
	for what, conn := range conns {
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || r.StatusCode != all[what].status {
			t.Errorf("%s: %+v, %v", what, r, err)
			continue
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Errorf("%s: the body of the answer: %v", what, err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the connection is still open: %v", what, err)
		}
	}
}

// listener accepts the connections of a channel.
type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l listener) Close() error {
	close(l)
	return nil
}

func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// inBubble runs a test with a connection to the server, and with a clock that moves on when all
// wait (see testing/synctest).
func (w *world) inBubble(t *testing.T, test func(conn net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		l := make(listener, 1)
		l <- server
		s := &http.Server{Handler: w.server}
		defer s.Close()
		go s.Serve(l)
		test(client)
	})
}

// TestSlowBodies checks that a client can send a body slowly, and that no operation limits the
// total time.
func TestSlowBodies(t *testing.T) {
	w := newWorld(t)
	for path, item := range w.server.OpenAPI().Paths {
		for method, o := range methodsOf(item) {
			if o.RequestBody != nil && o.BodyReadTimeout > 0 {
				t.Errorf("%s %s: a body has at most %v", method, path, o.BodyReadTimeout)
			}
		}
	}
	w.inBubble(t, func(conn net.Conn) {
		w.server.mux.HandleFunc("POST /slow", func(o http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			fmt.Fprint(o, string(b), err)
		})
		io.WriteString(conn, "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n")
		for _, part := range []string{"s", "l", "o", "w"} {
			time.Sleep(quiet - time.Second)
			io.WriteString(conn, part)
		}
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		w.check(err)
		if b, err := io.ReadAll(r.Body); string(b) != "slow<nil>" || err != nil {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

// TestSlowReaders checks that the server gives up clients that do not read an answer. The deadline
// of an answer must not apply to later requests of the connection.
func TestSlowReaders(t *testing.T) {
	w := newWorld(t)
	w.inBubble(t, func(conn net.Conn) {
		failed := make(chan error, 1)
		w.server.mux.HandleFunc("GET /large", func(o http.ResponseWriter, r *http.Request) {
			_, err := o.Write(make([]byte, maxUpload))
			failed <- err
		})
		io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if err := <-failed; err == nil {
			t.Error("the answer was sent")
		}
	})
	w.inBubble(t, func(conn net.Conn) {
		w.server.mux.HandleFunc("POST /body", func(o http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(o, r.Body)
			w.check(err)
		})
		from := bufio.NewReader(conn)
		for range 2 {
			io.WriteString(conn, "POST /body HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
			r, err := http.ReadResponse(from, nil)
			w.check(err)
			if r.StatusCode != http.StatusContinue {
				t.Errorf("got %d", r.StatusCode)
			}
			io.WriteString(conn, "x")
			r, err = http.ReadResponse(from, nil)
			w.check(err)
			if b, err := io.ReadAll(r.Body); string(b) != "x" || err != nil {
				t.Errorf("got %q, %v", b, err)
			}
			time.Sleep(quiet + time.Second)
		}
	})
}
