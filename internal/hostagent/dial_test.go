package hostagent

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// listenFake makes all ports of the fake machines reach a server.
func listenFake(t *testing.T, f *fakes, serve func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f.dialed = l
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
}

type dialStream = *connect.BidiStreamForClient[hostv1.DialRequest, hostv1.DialResponse]

// dialFake opens a stream to a port, and waits until it is open.
func dialFake(t *testing.T, c hostv1connect.HostServiceClient, id string, port uint32) (dialStream, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := c.Dial(ctx)
	if err := s.Send(&hostv1.DialRequest{Message: &hostv1.DialRequest_Open_{Open: &hostv1.DialRequest_Open{SandboxId: id, Port: port}}}); err != nil {
		return s, err
	}
	_, err := s.Receive()
	return s, err
}

func sendData(t *testing.T, s dialStream, b []byte) {
	t.Helper()
	if err := s.Send(&hostv1.DialRequest{Message: &hostv1.DialRequest_Data{Data: b}}); err != nil {
		t.Error(err)
	}
}

// receiveAll returns all data until the stream ends.
func receiveAll(s dialStream) ([]byte, error) {
	var all []byte
	for {
		m, err := s.Receive()
		if err == nil {
			all = append(all, m.Data...)
			continue
		}
		if strings.Contains(err.Error(), io.EOF.Error()) {
			err = nil
		}
		return all, err
	}
}

// TestDial checks connections to ports of sandboxes.
func TestDial(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	client := hostClient(t, serve(t, a, ServeOptions{}))

	if _, err := dialFake(t, client, "x", 80); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("nothing listens: %v", err)
	}
	closed := make(chan []byte, 8)
	listenFake(t, f, func(c net.Conn) {
		io.WriteString(c, "220 ready")
		got, _ := io.ReadAll(c)
		closed <- got
	})
	for _, port := range []uint32{0, 65536} {
		if _, err := dialFake(t, client, "x", port); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("port %d: %v", port, err)
		}
	}
	if _, err := dialFake(t, client, "y", 80); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("unknown sandbox: %v", err)
	}

	s, err := dialFake(t, client, "x", 80)
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	go func() {
		for at := 0; at < len(sent); at += 32 << 10 {
			sendData(t, s, sent[at:at+32<<10])
		}
		s.CloseRequest()
	}()
	if got, err := receiveAll(s); err != nil || string(got) != "220 ready" {
		t.Errorf("got %q, %v", got, err)
	}
	select {
	case got := <-closed:
		if !bytes.Equal(got, sent) {
			t.Errorf("the program got %d bytes, want %d", len(got), len(sent))
		}
	case <-time.After(testenv.Patience):
		t.Error("the program's connection stays open")
	}
}

// TestDialResumes checks that a connection resumes a paused sandbox and counts as activity only
// while data flows. It must end when its client disconnects.
func TestDialResumes(t *testing.T) {
	f, now := newFakes(), time.Now()
	a, err := Open(t.Context(), Options{Folder: t.TempDir(), Machines: f, Log: quiet, clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	closed := make(chan bool, 1)
	listenFake(t, f, func(c net.Conn) {
		io.Copy(c, c)
		closed <- true
	})
	client := hostClient(t, serve(t, a, ServeOptions{}))
	s, err := dialFake(t, client, "x", 80)
	if err != nil || list(t, a)[0].Status != statusRunning || list(t, a)[0].TimeoutSec != 60 {
		t.Fatal(err, list(t, a))
	}
	one := a.all()[0]
	one.mu.Lock()
	now = now.Add(2 * time.Minute)
	due := one.pauseDueLocked()
	one.mu.Unlock()
	if !due {
		t.Error("an idle connection prevents the pause")
	}
	w := a.watchers.add("")
	defer a.watchers.drop(w)
	sendData(t, s, []byte("x"))
	if m, err := s.Receive(); err != nil || string(m.Data) != "x" {
		t.Error(m, err)
	}
	if one.pauseDue() {
		t.Error("data does not count as activity")
	}
	one.mu.Lock()
	reports := one.useReport != nil
	one.mu.Unlock()
	if !reports {
		t.Error("watchers do not get the time of the activity")
	}
	s.CloseResponse()
	select {
	case <-closed:
	case <-time.After(testenv.Patience):
		t.Error("the connection survives its client")
	}
	f.stop("ws-x")
	if _, err := dialFake(t, client, "x", 80); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a stopped sandbox: %v", err)
	}
}
