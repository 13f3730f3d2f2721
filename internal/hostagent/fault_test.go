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
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// blockRecord makes writes of a sandbox's record fail until the test calls free.
func blockRecord(t *testing.T, folder, id string) (free func()) {
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

// TestCleanupFails checks a creation that fails and can't delete its machine. The sandbox must be
// listed. The next host agent must be able to destroy it.
func TestCleanupFails(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	var free func()
	f.during = func(Spec) { free = blockRecord(t, folder, "x") }
	f.deleteErr = fault.Newf(fault.Unavailable, "no room for a note")
	if _, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x"})); err == nil || !strings.Contains(err.Error(), "no room for a note") {
		t.Errorf("%v", err)
	}
	free()
	if all := list(t, a); len(all) != 1 || all[0].Status != statusRunning {
		t.Fatalf("listed: %v", all)
	}
	a.Close()
	a = open(t, folder, f, Limits{}) // it can't remove the sandbox yet
	if all := list(t, a); len(all) != 1 || all[0].Status != statusPending {
		t.Fatalf("listed: %v", all)
	}
	f.deleteErr = nil
	if err := a.destroy(t.Context(), "x"); err != nil || f.ids() != 0 || len(list(t, a)) != 0 {
		t.Errorf("%v, %d machines, %v", err, f.ids(), list(t, a))
	}
}

// TestUnknownStatus checks that a sandbox is not reported as stopped if it might be paused.
func TestUnknownStatus(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	a.Close()
	f.pausedErr = errors.New("the database is busy")
	a = open(t, folder, f, Limits{})
	_, listed := a.ListSandboxes(t.Context(), connect.NewRequest(&pb.ListSandboxesRequest{}))
	for what, err := range map[string]error{"list": listed, "resume": resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x"}), "pause": pause(t, a, "x"), "ping": ping(t, a, "x")} {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.pausedErr = nil
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x"}); err != nil {
		t.Error(err)
	}
}

// TestCreationIsActivity checks that the duration of a creation does not count as inactivity.
func TestCreationIsActivity(t *testing.T) {
	f, h := newFakes(), &manualClock{now: time.Unix(1000, 0)}
	f.during = func(Spec) { h.pass(time.Hour) }
	a := openAt(t, t.TempDir(), f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	if s, err := a.find("x"); err != nil || s.pauseDue() {
		t.Errorf("it is inactive: %v", err)
	}
}

// TestFailedTemplateKeepsReport checks that an automatic pause is still reported after MakeTemplate
// failed.
func TestFailedTemplateKeepsReport(t *testing.T) {
	f, h := newFakes(), &manualClock{now: time.Unix(1000, 0)}
	a := openAt(t, t.TempDir(), f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	h.pass(time.Hour)
	reap(t, a, "x")
	f.making = func(bool) error { return fault.Newf(fault.Exhausted, "the disk is full") }
	if _, err := a.FlattenRootfs(t.Context(), connect.NewRequest(&pb.FlattenRootfsRequest{SandboxId: "x", Name: "t"})); fault.KindOf(err) != fault.Exhausted {
		t.Fatal(err)
	}
	if ids, _ := reported(t, a, 0); len(ids) != 1 || list(t, a)[0].Status != statusPaused {
		t.Errorf("reported %v of %v", ids, list(t, a))
	}
}

// TestResumeFails checks that a sandbox stays paused and unchanged if its record can't be written
// or its machine can't resume.
func TestResumeFails(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	free := blockRecord(t, folder, "x")
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x", TimeoutSec: 5}); err == nil {
		t.Error("got no error, want the resume to fail")
	}
	free()
	if all := list(t, a); all[0].Status != statusPaused || all[0].TimeoutSec != 60 {
		t.Errorf("it is %v", all)
	}
	f.transition = func(string) error { return fault.Newf(fault.Exhausted, "no") }
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x", TimeoutSec: 5}); err == nil {
		t.Error("got no error, want the resume to fail")
	}
	if all := list(t, a); all[0].Status != statusPaused || all[0].TimeoutSec != 60 {
		t.Errorf("it is %v", all)
	}
}

// TestDamagedRecord checks that a damaged record is moved aside and that the other sandboxes remain
// usable.
func TestDamagedRecord(t *testing.T) {
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

// TestSlowMetricsReader checks that a client that does not read the metrics does not block the
// counting of calls.
func TestSlowMetricsReader(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	c := newCounts()
	for i := range 2000 {
		c.begin(strings.Repeat("m", i))("ok")
	}
	near, far := net.Pipe() // a write blocks until the other end reads
	defer far.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	served := make(chan struct{})
	go func() {
		defer close(served)
		a.publicHandler(c).ServeHTTP(&unread{near}, httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
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
		t.Error("calls block while a client reads the metrics")
	}
	near.Close()
	<-served
}

// unread is a response whose client does not read.
type unread struct{ net.Conn }

func (unread) Header() http.Header { return http.Header{} }
func (unread) WriteHeader(int)     {}

// TestMalformedRequests checks the code and text of errors for requests that are too large or can't
// be decoded. Such requests fail before an ErrorDetail can be added.
func TestMalformedRequests(t *testing.T) {
	address := "http://" + serve(t, open(t, t.TempDir(), newFakes(), Limits{}), ServeOptions{})
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
		answer, err := withToken{http.DefaultTransport}.RoundTrip(r)
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
