package hostagent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// blocked has nothing be written of a sandbox any more, until the function is called that it gives.
func blocked(t *testing.T, folder, id string) (free func()) {
	t.Helper()
	at := filepath.Join(folder, sandboxesFolder, id)
	if err := errors.Join(os.Rename(at, at+"-away"), os.WriteFile(at, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.Remove(at), os.Rename(at+"-away", at)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAMachineThatStaysIsListed has a creation fail whose machine can't be removed either: it is there, can be destroyed, and is found by who comes after.
func TestAMachineThatStaysIsListed(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	var free func()
	f.during = func(Spec) { free = blocked(t, folder, "x") }
	f.stays = fault.Newf(fault.Unavailable, "no room for a note")
	if _, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x"})); err == nil || !strings.Contains(err.Error(), "no room for a note") {
		t.Errorf("%v", err)
	}
	free()
	if all := list(t, a); len(all) != 1 || all[0].Status != statusRunning {
		t.Fatalf("listed: %v", all)
	}
	a.Close()
	a = open(t, folder, f, Limits{}) // which can't remove it yet
	if all := list(t, a); len(all) != 1 || all[0].Status != statusPending {
		t.Fatalf("listed: %v", all)
	}
	f.stays = nil
	if err := a.destroy(t.Context(), "x"); err != nil || f.ids() != 0 || len(list(t, a)) != 0 {
		t.Errorf("%v, %d machines, %v", err, f.ids(), list(t, a))
	}
}

// TestAStateThatIsNotKnownIsNotTold has nobody told that a sandbox has ended which may be paused.
func TestAStateThatIsNotKnownIsNotTold(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	a.Close()
	f.unknown = errors.New("the database is busy")
	a = open(t, folder, f, Limits{})
	_, listed := a.ListSandboxes(t.Context(), connect.NewRequest(&pb.ListSandboxesRequest{}))
	for what, err := range map[string]error{"list": listed, "resume": resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x"}), "pause": pause(t, a, "x"), "ping": ping(t, a, "x")} {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.unknown = nil
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x"}); err != nil {
		t.Error(err)
	}
}

// TestASandboxIsActiveOnceItIsThere has the time of its making not count as inactivity.
func TestASandboxIsActiveOnceItIsThere(t *testing.T) {
	f, h := newFakes(), &hand{now: time.Unix(1000, 0)}
	f.during = func(Spec) { h.pass(time.Hour) }
	a := openAt(t, t.TempDir(), f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	if s, err := a.find("x"); err != nil || s.due() {
		t.Errorf("it is inactive: %v", err)
	}
}

// TestWhatBecomesNoTemplateIsStillToldOf has a pause for inactivity be told that a template could not be made of.
func TestWhatBecomesNoTemplateIsStillToldOf(t *testing.T) {
	f, h := newFakes(), &hand{now: time.Unix(1000, 0)}
	a := openAt(t, t.TempDir(), f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	h.pass(time.Hour)
	reaped(t, a, "x")
	f.keeping = func(bool) error { return fault.Newf(fault.Exhausted, "the disk is full") }
	if _, err := a.FlattenRootfs(t.Context(), connect.NewRequest(&pb.FlattenRootfsRequest{SandboxId: "x", Name: "t"})); fault.KindOf(err) != fault.Exhausted {
		t.Fatal(err)
	}
	if ids, _ := told(t, a, 0); len(ids) != 1 || list(t, a)[0].Status != statusPaused {
		t.Errorf("told are %v of %v", ids, list(t, a))
	}
}

// TestAResumeThatCanNotBeNotedIsNone has a sandbox stay paused, as it was, where what it is to be can't be written down.
func TestAResumeThatCanNotBeNotedIsNone(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	free := blocked(t, folder, "x")
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x", TimeoutSec: 5}); err == nil {
		t.Error("it goes on")
	}
	free()
	if all := list(t, a); all[0].Status != statusPaused || all[0].TimeoutSec != 60 {
		t.Errorf("it is %v", all)
	}
	f.turning = func(string) error { return fault.Newf(fault.Exhausted, "no") }
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x", TimeoutSec: 5}); err == nil {
		t.Error("it goes on")
	}
	if all := list(t, a); all[0].Status != statusPaused || all[0].TimeoutSec != 60 {
		t.Errorf("it is %v", all)
	}
}

// TestADamagedRecordKeepsNoneFromTheOthers has the host agent serve all but the sandbox whose record nobody can read, which is put aside.
func TestADamagedRecordKeepsNoneFromTheOthers(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	for _, id := range []string{"good", "bad"} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
	}
	a.Close()
	records := filepath.Join(folder, sandboxesFolder)
	err := errors.Join(os.WriteFile(filepath.Join(records, "bad", recordFile), []byte("{"), 0o600), os.WriteFile(filepath.Join(records, "stray"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a = open(t, folder, f, Limits{})
		if all := list(t, a); len(all) != 1 || all[0].SandboxId != "good" {
			t.Errorf("%v", all)
		}
		a.Close()
	}
	if _, err := os.Stat(filepath.Join(records, damagedPrefix+"bad", recordFile)); err != nil {
		t.Error(err)
	}
}

// TestWhoDoesNotReadMetricsHoldsUpNobody has calls be counted while a client takes nothing of what it asked for.
func TestWhoDoesNotReadMetricsHoldsUpNobody(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	c := newCounts()
	for i := range 2000 {
		c.begin(strings.Repeat("m", i))("ok")
	}
	near, far := net.Pipe() // nothing is taken that nobody reads
	defer far.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	served := make(chan struct{})
	go func() {
		defer close(served)
		a.openHandler(c).ServeHTTP(&unread{near}, httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
	}()
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for range 1000 {
			c.begin("other")("ok")
		}
	}()
	select {
	case <-counted:
	case <-ctx.Done():
		t.Error("calls wait for who reads the metrics")
	}
	near.Close()
	<-served
}

// unread is an answer that is written to a connection.
type unread struct{ net.Conn }

func (unread) Header() http.Header { return http.Header{} }
func (unread) WriteHeader(int)     {}

// TestWhatIsNoMessageIsRefused has bytes that are no request of a call, and too many of them: a code and a text tell that, before there is a call to have an ErrorDetail.
func TestWhatIsNoMessageIsRefused(t *testing.T) {
	address := "http://" + serve(t, open(t, t.TempDir(), newFakes(), Limits{}), Serving{})
	for _, c := range []struct{ kind, body, want string }{
		{"application/json", `{"sandbox_id": 7}`, `"code":"invalid_argument"`}, {"application/json", `{`, `"code":"invalid_argument"`},
		{"application/proto", "\xff", `"code":"invalid_argument"`},
		{"application/json", `{"content":"` + strings.Repeat("a", maxMessage) + `"}`, `"code":"resource_exhausted"`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+hostagentv1connect.HostAgentServiceWriteFileProcedure, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.kind)
		answer, err := shown{http.DefaultTransport}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(text), c.want) || !strings.Contains(string(text), `"message":"`) {
			t.Errorf("%.20q: %s %s %v", c.body, answer.Status, text, err)
		}
	}
}
