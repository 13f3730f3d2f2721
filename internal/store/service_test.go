package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

func TestServices(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	web := Service{Name: "web", StartedAt: born, Spec: ServiceSpec{
		Argv: []string{"serve"}, Cwd: "/workspace", Readiness: &ServiceReadiness{Type: "tcp", Target: "1:2", TimeoutMS: 3, IntervalMS: 4}, Secrets: []string{"A"},
	}}
	if err := s.PutService(ctx, "ws-1", web); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of no workspace: %v", err)
	}
	for _, id := range []string{"ws-1", "ws-2"} {
		if err := s.AddWorkspace(ctx, sample(id)); err != nil {
			t.Fatal(err)
		}
	}
	put := func(v Service) {
		t.Helper()
		if err := s.PutService(ctx, "ws-1", v); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want Service) {
		t.Helper()
		got, err := s.Service(ctx, "ws-1", want.Name)
		if got.Spec.Readiness != nil && want.Spec.Readiness != nil && *got.Spec.Readiness == *want.Spec.Readiness {
			got.Spec.Readiness = want.Spec.Readiness // compare values, not addresses
		}
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("got  %+v\nwant %+v\n%v", got, want, err)
		}
	}
	put(web)
	is(web)
	ended := web
	ended.ReadyAt, ended.EndedAt, ended.Result = born.Add(1), born.Add(2), ServiceResult{Exit: program.Exit{Code: 3}, Stopped: true}
	put(ended)
	is(ended)
	next := web
	next.StartedAt = born.Add(time.Hour)
	put(next)
	put(ended) // a late update of the previous service
	is(next)
	stopped := next
	stopped.EndedAt = next.StartedAt.Add(1)
	put(stopped)
	put(ended)
	is(stopped)
	earlier := web // started after the clock was set back
	earlier.StartedAt = next.StartedAt.Add(-time.Minute)
	put(earlier)
	is(earlier)
	put(ended)
	is(earlier)
	put(next)
	put(Service{Name: "db", StartedAt: born, EndedAt: born.Add(1)})
	if w, err := s.Workspace(ctx, "ws-1"); err != nil || w.ServiceCount != 2 || w.OpenServiceCount != 1 {
		t.Errorf("%d, of which %d are open: %v", w.ServiceCount, w.OpenServiceCount, err)
	}
	all, err := s.Services(ctx, "ws-1")
	if err != nil || len(all) != 2 || all[0].Name != "db" || all[1].Name != "web" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.Started(ctx, "ws-1", born.Add(2*time.Hour), time.Time{}); err != nil {
		t.Fatal(err)
	}
	next.EndedAt, next.Result.Broken = born.Add(2*time.Hour), MachineEnded
	is(next)
	if got, err := s.Service(ctx, "ws-1", "db"); err != nil || got.Result.Broken != "" {
		t.Errorf("ended service: got %+v, %v", got, err)
	}
	if _, err := s.Service(ctx, "ws-2", "web"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("service of another workspace: got %v", err)
	}
	if err := s.Reset(ctx, "ws-1", Disks{}, born); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Services(ctx, "ws-1"); err != nil || len(all) != 0 {
		t.Errorf("after a reset: %+v, %v", all, err)
	}
}

func TestSecrets(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	w := sample("ws-1")
	w.Secrets = []Secret{{"B", "file", []byte{1, 0, 255}}, {"A", "literal", []byte("sealed")}}
	if err := s.AddWorkspace(ctx, w); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Workspace(ctx, "ws-1"); err != nil || got.Secrets != nil {
		t.Errorf("a record has %+v, %v", got.Secrets, err)
	}
	got, err := s.Secrets(ctx, "ws-1")
	if want := []Secret{w.Secrets[1], w.Secrets[0]}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, %v", got, err)
	}
	twice := sample("ws-2")
	twice.Secrets = []Secret{{Name: "A"}, {Name: "A"}}
	if err := s.AddWorkspace(ctx, twice); err == nil {
		t.Error("two secrets of one name were accepted")
	}
	if _, err := s.Workspace(ctx, "ws-2"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("workspace after a failed create: got %v", err)
	}
	if err := s.Delete(ctx, "ws-1"); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Secrets(ctx, "ws-1"); err != nil || len(left) != 0 {
		t.Errorf("after their workspace: %+v, %v", left, err)
	}
}
