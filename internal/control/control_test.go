package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/hosttest"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/control/store/storetest"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// world is a control plane with a fake host, and a team.
type world struct {
	t     *testing.T
	store *store.Store
	host  *hosttest.Host
	*Control
	by Actor
}

func each(t *testing.T, test func(t *testing.T, w *world)) {
	storetest.Each(t, func(t *testing.T, address string) {
		w := &world{t: t, store: storetest.Open(t, address), host: hosttest.New()}
		w.restart()
		now := time.Now()
		u := store.User{ID: store.NewID(store.UserPrefix), Email: "a@example.com", CreatedAt: now}
		w.check(w.store.AddUser(t.Context(), u))
		team := store.Team{ID: store.NewID(store.TeamPrefix), Slug: "a", CreatedAt: now}
		w.check(w.store.AddTeam(t.Context(), team, u.ID))
		w.by = Actor{Type: store.ActorUser, ID: u.ID, TeamID: team.ID}
		test(t, w)
	})
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// restart replaces the control plane by a new one, as a restart of the process does.
func (w *world) restart() {
	w.t.Helper()
	c, err := New(w.t.Context(), Options{Store: w.store, Hosts: []Host{{"key", "here", w.host}}, Log: slog.New(slog.DiscardHandler), HashMemory: 64})
	w.check(err)
	w.Control = c
}

func (w *world) create() store.Sandbox {
	w.t.Helper()
	b, err := w.CreateSandbox(w.t.Context(), w.by, Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024})
	w.check(err)
	return b
}

// consistent checks that the host has exactly the recorded sandboxes, and that they are in the
// wanted states.
func (w *world) consistent() {
	w.t.Helper()
	all, err := w.Sandboxes(w.t.Context(), w.by)
	w.check(err)
	there := w.host.Statuses()
	for _, b := range all {
		if there[b.ID] != string(b.Wanted) || b.Status != string(b.Wanted) || !b.Made {
			w.t.Errorf("%s is %q on its host, wanted %q, recorded as %q (made %v)", b.ID, there[b.ID], b.Wanted, b.Status, b.Made)
		}
		delete(there, b.ID)
	}
	if len(there) > 0 {
		w.t.Errorf("the host has sandboxes without records: %v", there)
	}
	if u, err := w.store.Used(w.t.Context(), w.by.TeamID, time.Now()); err != nil || int(u.Sandboxes) != len(all) {
		w.t.Errorf("the quota counts %d sandboxes, want %d (%v)", u.Sandboxes, len(all), err)
	}
}

func TestLife(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.create()
		if b.Status != "running" || !b.Made {
			t.Errorf("%+v", b)
		}
		_, err := w.ResumeSandbox(t.Context(), w.by, b.ID)
		if fault.KindOf(err) != fault.Precondition {
			t.Errorf("resume a running sandbox: %v", err)
		}
		w.consistent()
		p, err := w.PauseSandbox(t.Context(), w.by, b.ID)
		if err != nil || p.Status != "paused" {
			t.Errorf("%+v, %v", p, err)
		}
		w.consistent()
		_, err = w.ResumeSandbox(t.Context(), w.by, b.ID)
		w.check(err)
		w.consistent()

		other := w.by
		other.TeamID = "team-other"
		for name, err := range map[string]error{
			"get": second(w.Sandbox(t.Context(), other, b.ID)), "pause": second(w.PauseSandbox(t.Context(), other, b.ID)),
			"resume": second(w.ResumeSandbox(t.Context(), other, b.ID)), "delete": w.DeleteSandbox(t.Context(), other, b.ID),
		} {
			if fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s the sandbox of another team: %v", name, err)
			}
		}
		w.check(w.DeleteSandbox(t.Context(), w.by, b.ID))
		var log []string
		entries, err := w.Audits(t.Context(), Identity{Actor: w.by, Role: store.RoleOwner}, store.AuditQuery{Limit: 10})
		w.check(err)
		for _, e := range entries {
			if e.Subject != b.ID || e.ActorID != w.by.ID {
				t.Errorf("%+v", e)
			}
			log = append(log, e.Action+" "+e.Result)
		}
		if want := "delete ok, resume ok, pause ok, resume failed_precondition, create ok"; strings.Join(log, ", ") != want {
			t.Errorf("got %q, want %q", strings.Join(log, ", "), want)
		}
		if err := w.DeleteSandbox(t.Context(), w.by, b.ID); fault.KindOf(err) != fault.NotFound {
			t.Errorf("delete it again: %v", err)
		}
		w.consistent()
	})
}

func second[T any](_ T, err error) error { return err }

// TestHostFails makes each call to the host fail. Either the host refuses the call and does
// nothing, or its answer is lost.
func TestHostFails(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, done := range []bool{false, true} {
			for _, code := range []connect.Code{connect.CodeInvalidArgument, connect.CodeUnavailable} {
				if done && code == connect.CodeInvalidArgument {
					continue // a refused call has no effect
				}
				for _, call := range []string{"create", "fork", "pause", "resume", "destroy"} {
					name := fmt.Sprintf("%s of %s, done %v", code, call, done)
					b := w.create()
					if call == "resume" {
						_, err := w.PauseSandbox(t.Context(), w.by, b.ID)
						w.check(err)
					}
					w.host.Break = func(c string, d bool) error {
						if c == call && d == done {
							return connect.NewError(code, errors.New("broken"))
						}
						return nil
					}
					err := w.operate(call, b.ID)
					w.host.Break = nil
					if want := fault.FromRPC(uint32(code)); fault.KindOf(err) != want && (call != "destroy" || code != connect.CodeUnavailable || err != nil) {
						t.Errorf("%s: got %v, want kind %s", name, err, want)
					}
					w.check(w.Reconcile(t.Context()))
					w.check(w.Reconcile(t.Context()))
					w.consistent()
					if err := w.DeleteSandbox(t.Context(), w.by, b.ID); err != nil && call != "destroy" {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
	})
}

// blockAt blocks the first operation that reaches the given call of the host. This simulates a
// process that is killed. stopped is then closed.
func (w *world) blockAt(call string, done bool) (stopped <-chan struct{}) {
	there := make(chan struct{})
	var once sync.Once
	w.host.Break = func(c string, d bool) error {
		if c == call && d == done {
			once.Do(func() { close(there) })
			select {}
		}
		return nil
	}
	return there
}

func (w *world) operate(call, id string) error {
	ctx := context.WithoutCancel(w.t.Context())
	switch call {
	case "create":
		return second(w.CreateSandbox(ctx, w.by, Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024}))
	case "fork":
		return second(w.ForkSandbox(ctx, w.by, id, Fork{Live: true}))
	case "pause":
		return second(w.PauseSandbox(ctx, w.by, id))
	case "resume":
		return second(w.ResumeSandbox(ctx, w.by, id))
	}
	return w.DeleteSandbox(ctx, w.by, id)
}

// TestStoppedAtEachStep blocks an operation before or after its call to the host. This simulates a
// process that is killed. Another control plane must then finish the operation.
func TestStoppedAtEachStep(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, done := range []bool{false, true} {
			for _, call := range []string{"create", "fork", "pause", "resume", "destroy"} {
				b := w.create()
				if call == "resume" {
					_, err := w.PauseSandbox(t.Context(), w.by, b.ID)
					w.check(err)
				}
				stopped := w.blockAt(call, done)
				go w.operate(call, b.ID)
				<-stopped
				w.host.Break = nil
				w.restart()
				w.check(w.Reconcile(t.Context()))
				w.consistent()
				got, err := w.Sandbox(t.Context(), w.by, b.ID)
				if deleted := fault.KindOf(err) == fault.NotFound; deleted != (call == "destroy") {
					t.Errorf("%s, done %v: %+v, %v", call, done, got, err)
				}
			}
		}
	})
}

// TestReconcile checks changes that the host made without a call.
func TestReconcile(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		inactive, lost := w.create(), w.create()
		w.host.PauseInactive(inactive.ID)
		w.host.Lose(lost.ID)
		w.check(w.Reconcile(t.Context()))
		if b, err := w.Sandbox(t.Context(), w.by, inactive.ID); err != nil || b.Status != "paused" || b.Wanted != store.WantPaused {
			t.Errorf("%+v, %v", b, err)
		}
		if b, err := w.Sandbox(t.Context(), w.by, lost.ID); err != nil || b.Status != StatusMissing {
			t.Errorf("%+v, %v", b, err)
		}
		if got := w.host.Statuses()[inactive.ID]; got != "paused" {
			t.Errorf("got %q", got)
		}
		_, err := w.ResumeSandbox(t.Context(), w.by, inactive.ID)
		w.check(err)
		w.check(w.Reconcile(t.Context()))
		if b, err := w.Sandbox(t.Context(), w.by, inactive.ID); err != nil || b.Status != "running" {
			t.Errorf("%+v, %v", b, err)
		}
		w.check(w.DeleteSandbox(t.Context(), w.by, lost.ID))
	})
}

// TestOneKey repeats a request concurrently, and after it was interrupted.
func TestOneKey(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		req := Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024, Key: "k", Request: "r"}
		var all sync.WaitGroup
		ids := make([]string, 8)
		for i := range ids {
			all.Go(func() {
				b, err := w.CreateSandbox(context.WithoutCancel(t.Context()), w.by, req)
				if err != nil || b.Status != "running" {
					t.Errorf("%+v, %v", b, err)
				}
				ids[i] = b.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("%q", ids)
			}
		}
		w.consistent()
	})
}

// TestInterruptedRequestIsRepeated repeats a request whose first attempt was stopped before the
// host created the sandbox.
func TestInterruptedRequestIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := context.WithoutCancel(t.Context())
		req := Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024, Env: map[string]string{"A": "b"}, Key: "k", Request: "r"}
		stopped := w.blockAt("create", false)
		go w.CreateSandbox(ctx, w.by, req)
		<-stopped
		w.host.Break = nil
		w.restart()
		b, err := w.CreateSandbox(ctx, w.by, req)
		if err != nil || b.Status != "running" || w.host.Env(b.ID)["A"] != "b" {
			t.Errorf("%+v with %v, %v", b, w.host.Env(b.ID), err)
		}
		w.consistent()
	})
}

// TestKeyOfFailedRequest repeats requests whose first attempts failed, sequentially and
// concurrently. A request whose sandbox was deleted can't be repeated.
func TestKeyOfFailedRequest(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := context.WithoutCancel(t.Context())
		req := Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024, Key: "k", Request: "r"}
		failures := make(chan struct{}, 2)
		failures <- struct{}{}
		failures <- struct{}{}
		w.host.Break = func(call string, done bool) error {
			if call != "create" || done {
				return nil
			}
			select {
			case <-failures:
				return connect.NewError(connect.CodeResourceExhausted, errors.New("the host is full"))
			default:
				return nil
			}
		}
		if _, err := w.CreateSandbox(ctx, w.by, req); fault.KindOf(err) != fault.Exhausted {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var failed atomic.Int64
		ids := make([]string, 8)
		for i := range ids {
			all.Go(func() {
				b, err := w.CreateSandbox(ctx, w.by, req)
				if fault.KindOf(err) == fault.Exhausted && failed.Add(1) == 1 {
					return
				}
				if err != nil || b.Status != "running" {
					t.Errorf("%+v, %v", b, err)
				}
				ids[i] = b.ID
			})
		}
		all.Wait()
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) != 2 || ids[0] != "" {
			t.Fatalf("%q", ids)
		}
		w.consistent()
		w.check(w.DeleteSandbox(ctx, w.by, ids[1]))
		if _, err := w.CreateSandbox(ctx, w.by, req); fault.KindOf(err) != fault.Precondition {
			t.Errorf("after the sandbox was deleted: %v", err)
		}
	})
}

// TestReconcileDuringOperations runs operations and Reconcile concurrently. No sandbox may be lost
// or created twice.
func TestReconcileDuringOperations(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 4
	}
	each(t, func(t *testing.T, w *world) {
		ctx := context.WithoutCancel(t.Context())
		stop := make(chan struct{})
		var loop, all sync.WaitGroup
		loop.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := w.Reconcile(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
		for i := range 8 {
			all.Go(func() {
				for range rounds {
					b, err := w.CreateSandbox(ctx, w.by, Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024})
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := w.PauseSandbox(ctx, w.by, b.ID); err != nil {
						t.Error(err)
					}
					if i%2 == 0 {
						if err := w.DeleteSandbox(ctx, w.by, b.ID); err != nil {
							t.Error(err)
						}
					} else if _, err := w.ResumeSandbox(ctx, w.by, b.ID); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		close(stop)
		loop.Wait()
		w.consistent()
		if all, err := w.Sandboxes(ctx, w.by); err != nil || len(all) != 4*rounds {
			t.Errorf("got %d sandboxes, want %d (%v)", len(all), 4*rounds, err)
		}
	})
}
