package control

import (
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// agrees checks that the host has exactly the recorded templates, and that all of them are
// complete.
func (w *world) agrees(want int) {
	w.t.Helper()
	w.consistent()
	all, err := w.Templates(w.t.Context(), w.by)
	w.check(err)
	there := w.host.Templates()
	for _, t := range all {
		if there[store.UUID(t.ID)] != t.SandboxID || !t.Made || t.SizeBytes == 0 {
			w.t.Errorf("%+v is not on its host", t)
		}
	}
	if len(there) != len(all) || len(all) != want {
		w.t.Errorf("%d templates are recorded, and the host has %d, want %d", len(all), len(there), want)
	}
}

func TestTemplateLife(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		source := w.create()
		made, err := w.CreateTemplate(ctx, w.by, NewTemplate{SandboxID: source.ID, Name: "tools"})
		w.check(err)
		if _, err := w.Sandbox(ctx, w.by, source.ID); fault.KindOf(err) != fault.NotFound {
			t.Errorf("the sandbox is still there: %v", err)
		}
		w.agrees(1)

		b, err := w.CreateSandbox(ctx, w.by, Create{Template: "tools", VCPUs: 8, MemoryMB: 8192, DiskMB: 64})
		if err != nil || b.VCPUs != source.VCPUs || b.MemoryMB != source.MemoryMB || b.DiskMB != source.DiskMB || b.TemplateID != made.ID {
			t.Errorf("%+v, %v", b, err)
		}
		other := w.by
		other.TeamID = store.NewID(store.TeamPrefix)
		w.check(w.store.AddTeam(ctx, store.Team{ID: other.TeamID, Slug: "other"}, w.by.ID))
		if _, err := w.CreateSandbox(ctx, other, Create{Template: "tools"}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a sandbox from the template of another team: %v", err)
		}
		if err := w.DeleteTemplate(ctx, other, "tools"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("delete the template of another team: %v", err)
		}
		if err := w.DeleteTemplate(ctx, w.by, "tools"); fault.KindOf(err) != fault.Precondition {
			t.Errorf("delete a template in use: %v", err)
		}
		if err := w.DeleteTemplate(ctx, w.by, "minimal"); fault.KindOf(err) != fault.Permission {
			t.Errorf("delete minimal: %v", err)
		}
		for name, want := range map[string]error{"tools": ErrNameTaken, "minimal": ErrNameReserved, "-a": fault.Invalid, "a/b": fault.Invalid} {
			if _, err := w.CreateTemplate(ctx, w.by, NewTemplate{SandboxID: b.ID, Name: name}); !errors.Is(err, want) {
				t.Errorf("make %s: %v", name, err)
			}
		}
		w.agrees(1)

		replaced, err := w.CreateTemplate(ctx, w.by, NewTemplate{SandboxID: b.ID, Name: "tools", Overwrite: true, FilesOnly: true})
		w.check(err)
		if replaced.ID == made.ID || replaced.TeamID != w.by.TeamID {
			t.Errorf("%+v", replaced)
		}
		w.agrees(1)
		b, err = w.CreateSandbox(ctx, w.by, Create{Template: "tools", VCPUs: 4, MemoryMB: 256, DiskMB: 64})
		if err != nil || b.VCPUs != 4 || b.MemoryMB != 256 || b.DiskMB != source.DiskMB {
			t.Errorf("%+v, %v", b, err)
		}
		w.check(w.DeleteSandbox(ctx, w.by, b.ID))
		w.check(w.DeleteTemplate(ctx, w.by, "tools"))
		w.agrees(0)
	})
}

// TestTemplateStoppedAtEachStep blocks requests for templates before or after their calls to the
// host, as if the process was killed. Another control plane must then finish the requests.
func TestTemplateStoppedAtEachStep(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := context.WithoutCancel(t.Context())
		for _, done := range []bool{false, true} {
			for _, call := range []string{"snapshot", "flatten", "delete snapshot"} {
				name := map[string]string{"snapshot": "a", "flatten": "b", "delete snapshot": "c"}[call]
				b := w.create()
				if call == "delete snapshot" {
					_, err := w.CreateTemplate(ctx, w.by, NewTemplate{SandboxID: b.ID, Name: name})
					w.check(err)
				}
				stopped := w.blockAt(call, done)
				c := w.Control
				go func() {
					if call == "delete snapshot" {
						c.DeleteTemplate(ctx, w.by, name)
					} else {
						c.CreateTemplate(ctx, w.by, NewTemplate{SandboxID: b.ID, Name: name, Overwrite: true, FilesOnly: call == "flatten"})
					}
				}()
				<-stopped
				w.host.Break = nil
				w.restart()
				w.check(w.Reconcile(ctx))
				w.check(w.Reconcile(ctx))
				if _, err := w.Sandbox(ctx, w.by, b.ID); fault.KindOf(err) != fault.NotFound {
					t.Errorf("%s, done %v: the sandbox is still there: %v", call, done, err)
				}
			}
		}
		w.agrees(2)
	})
}

// TestTemplateHostFails makes the calls for templates fail. Either the host refuses the call and
// does nothing, or its answer is lost.
func TestTemplateHostFails(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		for _, code := range []connect.Code{connect.CodeInternal, connect.CodeUnavailable} {
			b := w.create()
			w.host.Break = func(c string, d bool) error {
				if c == "snapshot" && !d {
					return connect.NewError(code, errors.New("broken"))
				}
				return nil
			}
			_, err := w.CreateTemplate(ctx, w.by, NewTemplate{SandboxID: b.ID, Name: "x"})
			w.host.Break = nil
			if fault.KindOf(err) != fault.FromRPC(uint32(code)) {
				t.Errorf("%s: %v", code, err)
			}
			if code == connect.CodeUnavailable {
				_, err := w.CreateTemplate(ctx, w.by, NewTemplate{SandboxID: b.ID, Name: "y"})
				if fault.KindOf(err) != fault.Exists || errors.Is(err, ErrNameTaken) {
					t.Errorf("another name while the host may be making the first template: %v", err)
				}
			}
			w.check(w.Reconcile(ctx))
			if code == connect.CodeInternal {
				w.agrees(0) // the host refused, so nothing happens later
				w.check(w.DeleteSandbox(ctx, w.by, b.ID))
			}
		}
		w.agrees(1)
	})
}
