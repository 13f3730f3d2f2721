package control

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

func TestFork(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		source, err := w.CreateSandbox(ctx, w.by, Create{Template: "minimal", VCPUs: 2, MemoryMB: 512, DiskMB: 1024, TimeoutSec: 60, Metadata: map[string]string{"a": "b"}})
		w.check(err)
		b, err := w.ForkSandbox(ctx, w.by, source.ID, Fork{Key: "k", Request: "r"})
		w.check(err)
		if b.ParentID != source.ID || b.VCPUs != 2 || b.TimeoutSec != 60 || b.Metadata["a"] != "b" || b.Status != "running" || !b.Made {
			t.Errorf("%+v", b)
		}
		again, err := w.ForkSandbox(ctx, w.by, source.ID, Fork{Key: "k", Request: "r"})
		if err != nil || again.ID != b.ID {
			t.Errorf("with the same key: %+v, %v", again, err)
		}
		w.consistent()
		other := w.by
		other.TeamID = "team-other"
		if _, err := w.ForkSandbox(ctx, other, source.ID, Fork{}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("by another team: %v", err)
		}
		if _, err := w.ForkSandbox(ctx, w.by, source.ID, Fork{Snapshot: "missing"}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("from a missing snapshot: %v", err)
		}
		w.check(w.store.SetQuota(ctx, w.by.TeamID, store.Quota{Sandboxes: 2}))
		if _, err := w.ForkSandbox(ctx, w.by, source.ID, Fork{}); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("beyond the quota: %v", err)
		}
		w.consistent()
		entries, err := w.Audits(ctx, w.owner(), store.AuditQuery{Limit: 10})
		w.check(err)
		if e := entries[0]; e.Action != actFork || e.Subject != source.ID || e.Result != string(fault.Exhausted) {
			t.Errorf("%+v", e)
		}
	})
}

func TestCallSandbox(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		b := w.create()
		w.host.Operation = func(sandbox, method string, params json.RawMessage) (any, error) {
			if method == "fail" {
				return nil, connect.NewError(connect.CodeAlreadyExists, context.Canceled)
			}
			return map[string]any{"sandbox": sandbox, "method": method, "params": params}, nil
		}
		var out, errs bytes.Buffer
		var events []progress.Event
		call := Call{
			Method: "diff_workspace", Params: json.RawMessage(`{"stat": true}`), Stdout: &out, Stderr: &errs,
			Progress: func(e progress.Event) { events = append(events, e) },
		}
		result, err := w.CallSandbox(ctx, w.by, b.ID, call)
		if err != nil || string(result) != `{"method":"diff_workspace","params":{"stat":true},"sandbox":"`+b.ID+`"}` {
			t.Errorf("%s, %v", result, err)
		}
		if out.String() != "out" || errs.String() != "err" || len(events) != 1 || events[0].Phase != "calling" {
			t.Errorf("%q, %q, %v", out.String(), errs.String(), events)
		}
		other := w.by
		other.TeamID = "team-other"
		if _, err := w.CallSandbox(ctx, other, b.ID, call); fault.KindOf(err) != fault.NotFound {
			t.Errorf("by another team: %v", err)
		}
		_, err = w.PauseSandbox(ctx, w.by, b.ID)
		w.check(err)
		call = Call{Method: "fail", Changes: true}
		if _, err := w.CallSandbox(ctx, w.by, b.ID, call); fault.KindOf(err) != fault.Exists {
			t.Errorf("%v", err)
		}
		if got, err := w.Sandbox(ctx, w.by, b.ID); err != nil || got.Wanted != store.WantPaused {
			t.Errorf("%+v, %v", got, err)
		}
		call.NeedsMachine = true
		if _, err := w.CallSandbox(ctx, w.by, b.ID, call); fault.KindOf(err) != fault.Precondition {
			t.Errorf("without the right to resume: %v", err)
		}
		call.Resumes = true
		w.CallSandbox(ctx, w.by, b.ID, call)
		if got, err := w.Sandbox(ctx, w.by, b.ID); err != nil || got.Wanted != store.WantRunning {
			t.Errorf("%+v, %v", got, err)
		}
		w.consistent()
		entries, err := w.Audits(ctx, w.owner(), store.AuditQuery{Limit: 10})
		w.check(err)
		var log []string
		for _, e := range entries {
			log = append(log, e.Action+" "+e.Result)
		}
		if want := "fail already_exists, resume ok, fail failed_precondition, fail already_exists, pause ok, create ok"; strings.Join(log, ", ") != want {
			t.Errorf("got %q, want %q", strings.Join(log, ", "), want)
		}
		call = Call{Method: "read", NeedsMachine: true}
		w.host.Set(b.ID, "paused") // the host has paused it, and the control plane does not know that yet
		if _, err := w.CallSandbox(ctx, w.by, b.ID, call); fault.KindOf(err) != fault.Precondition {
			t.Errorf("a call that must not resume a sandbox that has just paused: %v", err)
		}
		call.Resumes = true
		if _, err := w.CallSandbox(ctx, w.by, b.ID, call); err != nil {
			t.Errorf("a call that may resume it: %v", err)
		}
		var full failing
		if _, err := w.CallSandbox(ctx, w.by, b.ID, Call{Method: "say", Stdout: full}); err != context.DeadlineExceeded {
			t.Errorf("a writer failed: %v", err)
		}
	})
}

// failing is a writer that always fails.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, context.DeadlineExceeded }
