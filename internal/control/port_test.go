package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// echo starts an echo server and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestDialPort(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		b := w.create()
		if _, err := w.DialPort(ctx, w.by, b.ID, 80); !errors.Is(err, ErrNoListener) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("nothing listens: %v", err)
		}
		w.host.Listen(b.ID, 80, echo(t))
		other := w.by
		other.TeamID = "team-other"
		if _, err := w.DialPort(ctx, other, b.ID, 80); fault.KindOf(err) != fault.NotFound {
			t.Errorf("another team: %v", err)
		}
		short, cancel := context.WithCancel(ctx)
		conn, err := w.DialPort(short, w.by, b.ID, 80)
		w.check(err)
		cancel() // limits only the dialing
		sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		go conn.Write(sent)
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("content differs: %v", err)
		}
		conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := conn.Read(got); !isTimeout(err) {
			t.Errorf("deadline: %v", err)
		}
		w.check(conn.Close())
		if _, err := conn.Write(got); err == nil {
			t.Error("a closed connection takes data")
		}
		if _, err := w.DialPort(short, w.by, b.ID, 80); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// TestDialPortResumes checks that connections resume a paused sandbox once, and that its wanted
// state is then "running".
func TestDialPortResumes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		b := w.create()
		w.host.Listen(b.ID, 80, echo(t))
		_, err := w.PauseSandbox(ctx, w.by, b.ID)
		w.check(err)
		system := Actor{Type: store.ActorSystem, ID: "preview", TeamID: b.TeamID}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				conn, err := w.DialPort(ctx, system, b.ID, 80)
				if err != nil {
					t.Error(err)
					return
				}
				conn.Close()
			})
		}
		all.Wait()
		w.consistent()
		log, err := w.Audits(ctx, w.owner(), store.AuditQuery{Actions: []string{actResume}, Limit: 10})
		if err != nil || len(log) != 1 || log[0].ActorType != store.ActorSystem || log[0].Result != store.AuditOK {
			t.Errorf("%+v, %v", log, err)
		}

		// The host has paused the sandbox, but the control plane does not know this yet.
		w.host.PauseInactive(b.ID)
		conn, err := w.DialPort(ctx, system, b.ID, 80)
		w.check(err)
		defer conn.Close()
		w.check(w.Reconcile(ctx))
		if s := w.host.Statuses()[b.ID]; s != "running" {
			t.Errorf("it is %s", s)
		}

		// Reconcile records the pause while the host resumes it.
		w.host.PauseInactive(b.ID)
		w.host.Break = func(call string, done bool) error {
			if call == "dial" && !done {
				w.host.Break = nil
				w.check(w.Reconcile(ctx))
			}
			return nil
		}
		conn, err = w.DialPort(ctx, system, b.ID, 80)
		w.check(err)
		defer conn.Close()
		w.check(w.Reconcile(ctx))
		w.consistent()
	})
}
