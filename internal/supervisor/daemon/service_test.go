package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestServices tests services. All subtests share one machine.
func TestServices(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *home, *remote.Client){
			"logs": testServiceLogs, "many logs": testServiceLogsAreBounded, "a file": testReadyFile, "a port": testReadyPort, "a port of a child": testReadyPortOfChild, "a stale file": testReadyStaleFile, "ended": testReadyEnded, "a URL": testReadyURL, "a command": testReadyCommand,
			"not ready": testNotReady, "ends early": testEndsEarly, "ends": testServiceEnds, "stubborn": testStubbornService, "leaves children": testServiceWithChildren,
			"once": testServiceRunsOnce, "client disconnects": testServiceClientDisconnects, "errors": testServiceRefusals,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, h, c)
			})
		}
	})
}

// service returns the record of a service in the database.
func (h *home) service(t *testing.T, name string) store.Service {
	t.Helper()
	s, err := h.store.Service(context.Background(), h.config.Workspace.ID, name)
	check(t, err)
	return s
}

func (h *home) logs(t *testing.T, name string) (out, errs string) {
	t.Helper()
	folder := h.folder.Service(name)
	a, _, err := program.ReadLogFile(folder.Stdout())
	check(t, err)
	b, _, err := program.ReadLogFile(folder.Stderr())
	check(t, err)
	return string(a), string(b)
}

// awaitEnd waits until the record says that a service has ended.
func (h *home) awaitEnd(t *testing.T, name string) store.Service {
	t.Helper()
	testenv.Eventually(t, "the service has ended", func() bool { return !h.service(t, name).EndedAt.IsZero() })
	return h.service(t, name)
}

// begin starts a service in the workspace's folder.
func begin(c *remote.Client, ctx context.Context, name string, command program.Command, ready *remote.Readiness) error {
	if command.Cwd == "" {
		command.Cwd = "/workspace"
	}
	return c.StartService(ctx, name, remote.ServiceStart{Command: command, Ready: ready})
}

func ready(r client.Readiness) *remote.Readiness {
	r.Interval = 100 * time.Millisecond
	return &remote.Readiness{Readiness: r, Timeout: testenv.Patience}
}

func testServiceLogs(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "logs", sh(`echo out; echo err >&2; pwd; sleep 1000`), nil))
	testenv.Eventually(t, "it has printed", func() bool { out, errs := h.logs(t, "logs"); return strings.Count(out, "\n") == 2 && errs == "err\n" })
	if s := h.service(t, "logs"); s.ReadyAt.IsZero() || s.ReadyAt.Before(s.StartedAt) || !s.EndedAt.IsZero() || s.Spec.Argv[0] != "sh" || s.Spec.Readiness != nil {
		t.Errorf("%+v", s)
	}
	check(t, c.StopService(t.Context(), "logs"))
	if s := h.service(t, "logs"); s.EndedAt.IsZero() || !s.Result.Stopped || s.Result.Code != 143 || s.Result.Signal != 15 {
		t.Errorf("%+v", s)
	}
	if out, errs := h.logs(t, "logs"); !strings.HasPrefix(out, "out\n/") || errs != "err\n" {
		t.Errorf("after its end: %q, %q", out, errs)
	}
	check(t, c.StopService(t.Context(), "logs"))
	check(t, begin(c, t.Context(), "logs", sh(`echo again`), nil))
	h.awaitEnd(t, "logs")
	if out, errs := h.logs(t, "logs"); out != "again\n" || errs != "" {
		t.Errorf("of the next: %q, %q", out, errs)
	}
}

func testServiceLogsAreBounded(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "much", sh(`seq 1 1000000; echo end`), nil))
	s := h.awaitEnd(t, "much")
	out, _ := h.logs(t, "much")
	if s.Result.Code != 0 || len(out) > remote.ServiceLogBytes || len(out) < remote.ServiceLogBytes/2 || !strings.HasSuffix(out, "\n999999\n1000000\nend\n") {
		t.Errorf("%+v, %d bytes", s, len(out))
	}
}

func testReadyFile(t *testing.T, h *home, c *remote.Client) {
	began := time.Now()
	check(t, begin(c, t.Context(), "file", sh(`sleep 0.3; mkdir -p a; : >a/ready; date +%s%N; sleep 1000`), ready(client.Readiness{File: "/workspace/a/ready"})))
	if took := time.Since(began); took < 300*time.Millisecond || took > testenv.Patience {
		t.Errorf("it was ready after %v", took)
	}
	if s := h.service(t, "file"); s.ReadyAt.IsZero() || s.Spec.Readiness == nil || s.Spec.Readiness.Type != "file" || s.Spec.Readiness.Target != "/workspace/a/ready" {
		t.Errorf("%+v", s)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

// testReadyPort starts a service that listens late, and others that want its port.
func testReadyPort(t *testing.T, h *home, c *remote.Client) {
	address := freePort(t)
	began := time.Now()
	check(t, begin(c, t.Context(), "port", serving(address, "sleep 0.3; "), ready(client.Readiness{TCP: address})))
	if took := time.Since(began); took < 250*time.Millisecond {
		t.Errorf("it was ready after %v", took)
	}
	_, port, _ := net.SplitHostPort(address)
	want := "port " + port + ` belongs to service "port"`
	// pyro finds out whose port it is if it checks before the service ends.
	var err error
	for _, delay := range []string{"0.3", "2", "10", "30"} {
		err = begin(c, t.Context(), "port-second", serving(address, "sleep "+delay+"; "), ready(client.Readiness{TCP: address}))
		if err == nil || strings.Contains(err.Error(), want) {
			break
		}
	}
	if fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%s: %v", fault.KindOf(err), err)
	}
	if s := h.service(t, "port-second"); !s.ReadyAt.IsZero() || s.EndedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	neverReady(t, c, "port-third", sh("sleep 1000"), remote.Readiness{Readiness: client.Readiness{TCP: "localhost:" + port}}, want)
	neverReady(t, c, "port-fourth", sh("sleep 1000"), remote.Readiness{Readiness: client.Readiness{HTTP: "http://" + address + "/"}}, want)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	neverReady(t, c, "port-fifth", sh("sleep 1000"), remote.Readiness{Readiness: client.Readiness{TCP: l.Addr().String()}}, `belongs to another program, "daemon.test"`)
}

// neverReady starts a service that never becomes ready, and checks the error. On a busy host, the
// first time limits can end before pyro knows everything that the error must contain.
func neverReady(t *testing.T, c *remote.Client, name string, command program.Command, r remote.Readiness, want string) {
	t.Helper()
	r.Interval = 50 * time.Millisecond
	var err error
	for r.Timeout = 400 * time.Millisecond; r.Timeout < testenv.Patience; r.Timeout *= 4 {
		err = begin(c, t.Context(), name, command, &r)
		if fault.KindOf(err) == fault.Timeout && strings.Contains(err.Error(), "not ready within "+r.Timeout.String()) && strings.Contains(err.Error(), want) {
			return
		}
	}
	t.Errorf("%s: %s: %v", name, fault.KindOf(err), err)
}

// testReadyPortOfChild starts a service whose port belongs to a descendant in another session.
func testReadyPortOfChild(t *testing.T, _ *home, c *remote.Client) {
	for name, host := range map[string]string{"child": "127.0.0.1", "child-of-all": "0.0.0.0", "child-of-all-6": "::"} {
		_, port, _ := net.SplitHostPort(freePort(t))
		command := serving(net.JoinHostPort(host, port), "")
		command.Argv[2] = "setsid " + strings.TrimPrefix(command.Argv[2], "exec ") + " & wait; sleep 1000"
		check(t, begin(c, t.Context(), name, command, ready(client.Readiness{TCP: "127.0.0.1:" + port})))
	}
}

func testReadyURL(t *testing.T, h *home, c *remote.Client) {
	address := freePort(t)
	check(t, begin(c, t.Context(), "url", serving(address, ""), ready(client.Readiness{HTTP: "http://" + address + "/a?b=c"})))
	testenv.Eventually(t, "it was asked four times", func() bool {
		out, _ := h.logs(t, "url")
		return out == strings.Repeat(address+" /a?b=c\n", 4)
	})
}

// testReadyStaleFile checks that a file from before the start does not make a service ready, until
// the service writes it.
func testReadyStaleFile(t *testing.T, _ *home, c *remote.Client) {
	for i, change := range []string{": >again", "touch again", "echo >new; mv new again", "rm again; : >again"} {
		name := fmt.Sprint("one-run", i)
		check(t, begin(c, t.Context(), name, sh(`: >again; sleep 1000`), ready(client.Readiness{File: "/workspace/again"})))
		check(t, c.StopService(t.Context(), name))
		file := client.Readiness{File: "/workspace/again"}
		neverReady(t, c, name, sh(`sleep 1000`), remote.Readiness{Readiness: file}, "/workspace/again has not changed since before the start")
		began := time.Now()
		check(t, begin(c, t.Context(), name, sh(`sleep 0.3; `+change+`; sleep 1000`), ready(file)))
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("%s: it was ready after %v", change, took)
		}
		check(t, c.StopService(t.Context(), name))
	}
}

// testReadyEnded checks that a service is not ready if it has ended when its check succeeds.
func testReadyEnded(t *testing.T, h *home, c *remote.Client) {
	command := sh(`echo $$ >ends; until test -e go; do sleep 0.01; done; exit 3`)
	command.Cwd = "/workspace"
	r := ready(client.Readiness{})
	r.Command = `test -e ends && : >go && while kill -0 "$(cat ends)" 2>/dev/null; do sleep 0.01; done`
	err := begin(c, t.Context(), "ends", command, r)
	if fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), "it ended before it was ready, with exit code 3") {
		t.Errorf("%s: %v", fault.KindOf(err), err)
	}
	if s := h.service(t, "ends"); !s.ReadyAt.IsZero() {
		t.Errorf("%+v", s)
	}
}

func testReadyCommand(t *testing.T, _ *home, c *remote.Client) {
	command := sh(`sleep 0.3; : >by-command; sleep 1000`)
	command.Cwd, command.Env = "/workspace", []string{"MARK=by-command"}
	check(t, begin(c, t.Context(), "command", command, &remote.Readiness{Command: `test -e "$MARK"`, Timeout: testenv.Patience, Readiness: client.Readiness{Interval: 20 * time.Millisecond}}))
}

func testNotReady(t *testing.T, h *home, c *remote.Client) {
	const unused = "127.0.0.1:1"
	never := map[string]remote.Readiness{
		"never-file": {Readiness: client.Readiness{File: "/no/such/file"}}, "never-port": {Readiness: client.Readiness{TCP: unused}},
		"never-url": {Readiness: client.Readiness{HTTP: "http://" + unused + "/"}}, "never-command": {Command: "false"},
	}
	var starts sync.WaitGroup
	for name, r := range never {
		starts.Go(func() {
			neverReady(t, c, name, sh(`echo last words; echo more >&2; sleep 1000`), r, "last words\nmore")
		})
	}
	starts.Wait()
	for name := range never {
		if s := h.service(t, name); s.EndedAt.IsZero() || !strings.Contains(s.Result.Failed, "not ready") || !s.ReadyAt.IsZero() {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func testEndsEarly(t *testing.T, h *home, c *remote.Client) {
	never := ready(client.Readiness{File: "/no/such/file"})
	err := begin(c, t.Context(), "early", sh(`echo why; exit 7`), never)
	if fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), "with exit code 7") || !strings.Contains(err.Error(), "why") {
		t.Errorf("%v", err)
	}
	if s := h.service(t, "early"); s.Result.Code != 7 || s.Result.Failed == "" {
		t.Errorf("%+v", s)
	}
	err = begin(c, t.Context(), "nothing", program.Command{Argv: []string{"/no/such/program"}}, nil)
	if fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), "can't be started") {
		t.Errorf("%v", err)
	}
}

func testServiceEnds(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "brief", sh(`sleep 0.2; exit 3`), nil))
	if s := h.awaitEnd(t, "brief"); s.Result.Code != 3 || s.Result.Stopped || s.Result.Failed != "" || s.Result.Broken != "" {
		t.Errorf("%+v", s)
	}
}

func testStubbornService(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "stubborn", sh(`trap 'echo no' TERM; : >deaf; while :; do sleep 61.7; done`), ready(client.Readiness{File: "/workspace/deaf"})))
	began := time.Now()
	check(t, c.StopService(t.Context(), "stubborn"))
	if took := time.Since(began); took < stopGrace || took > testenv.Patience {
		t.Errorf("it was stopped after %v", took)
	}
	if s := h.service(t, "stubborn"); s.Result.Signal != 9 || !s.Result.Stopped {
		t.Errorf("%+v", s)
	}
	testenv.Eventually(t, "all of it has ended", func() bool { return processes(t, "61.7") == nil })
}

// testServiceWithChildren checks that the descendants of an ended service are killed, even those in
// other sessions.
func testServiceWithChildren(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "forks", sh(`sleep 62.7 & setsid sleep 62.8 >/dev/null 2>&1 & sleep 0.3; exit 0`), nil))
	if s := h.awaitEnd(t, "forks"); s.Result.Code != 0 {
		t.Errorf("%+v", s)
	}
	testenv.Eventually(t, "its children have ended", func() bool { return processes(t, "62.7") == nil && processes(t, "62.8") == nil })
}

func testServiceRunsOnce(t *testing.T, _ *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "one", sh(`sleep 1000`), nil))
	if err := begin(c, t.Context(), "one", sh(`sleep 1000`), nil); fault.KindOf(err) != fault.Exists {
		t.Errorf("%v", err)
	}
}

func testServiceClientDisconnects(t *testing.T, h *home, c *remote.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	if err := begin(c, ctx, "left", sh(`sleep 63.7`), ready(client.Readiness{File: "/no/such/file"})); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if s := h.awaitEnd(t, "left"); !s.Result.Stopped {
		t.Errorf("%+v", s)
	}
	testenv.Eventually(t, "it has ended", func() bool { return processes(t, "63.7") == nil })
}

func testServiceRefusals(t *testing.T, _ *home, c *remote.Client) {
	ctx := t.Context()
	for name, err := range map[string]error{
		"no name":         begin(c, ctx, "", sh("true"), nil),
		"a path":          begin(c, ctx, "../x", sh("true"), nil),
		"a long name":     begin(c, ctx, strings.Repeat("x", 65), sh("true"), nil),
		"no program":      begin(c, ctx, "x", program.Command{}, nil),
		"no time":         begin(c, ctx, "x", sh("true"), &remote.Readiness{Readiness: client.Readiness{File: "/", Interval: time.Second}}),
		"an odd address":  begin(c, ctx, "x", sh("sleep 1000"), ready(client.Readiness{TCP: "x"})),
		"an odd URL":      begin(c, ctx, "y", sh("sleep 1000"), ready(client.Readiness{HTTP: "https://localhost/"})),
		"a relative path": begin(c, ctx, "z", sh("sleep 1000"), ready(client.Readiness{File: "x"})),
	} {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %s: %v", name, fault.KindOf(err), err)
		}
	}
}

// TestServiceEndsAtOnce checks that a start without a readiness check succeeds if the program has
// already ended.
func TestServiceEndsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	v := (&daemon{config: h.config, folder: h.folder, store: h.store}).newService("id", store.Service{Name: "ended"})
	close(v.started)
	close(v.done)
	for range 50 {
		check(t, v.await(t.Context(), program.Command{}, nil, ""))
	}
	if v.record.ReadyAt.IsZero() {
		t.Errorf("%+v", v.record)
	}
}

// TestServicesEndWithMachine checks that a stop of the machine asks services to end, and that
// a crash is recorded.
func TestServicesEndWithMachine(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	testenv.Eventually(t, "the service ends by itself", func() bool {
		check(t, begin(c, t.Context(), "tidy", sh(`trap 'echo tidied up; exit 0' TERM; : >tidy; while :; do sleep 0.1; done`), ready(client.Readiness{File: "/workspace/tidy"})))
		began := time.Now()
		check(t, c.Stop(t.Context(), "the test", false))
		s := h.service(t, "tidy")
		// On a stalled host, the service can end too late.
		if s.Result.Code != 0 && time.Since(began) >= endGrace {
			check(t, h.store.Started(t.Context(), h.config.Workspace.ID, time.Now(), time.Time{}))
			c = h.live(t)
			return false
		}
		if !s.Result.Stopped || s.Result.Code != 0 || s.EndedAt.IsZero() {
			t.Errorf("%+v", s)
		}
		return true
	})
	if out, _ := h.logs(t, "tidy"); out != "tidied up\n" {
		t.Errorf("%q", out)
	}
	check(t, h.store.Started(t.Context(), h.config.Workspace.ID, time.Now(), time.Time{}))
	c = h.live(t)
	check(t, begin(c, t.Context(), "crash", sh(`echo before; sleep 64.7`), nil))
	testenv.Eventually(t, "it has printed", func() bool { out, _ := h.logs(t, "crash"); return out == "before\n" })
	status, err := c.Status(t.Context())
	check(t, err)
	check(t, syscall.Kill(status.PID, syscall.SIGKILL))
	h.ended(t, "64.7")
	if s := h.service(t, "crash"); !s.EndedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	if out, _ := h.logs(t, "crash"); out != "before\n" {
		t.Errorf("output before the crash: got %q", out)
	}
	check(t, h.store.Started(t.Context(), h.config.Workspace.ID, time.Now(), time.Time{}))
	if s := h.service(t, "crash"); s.EndedAt.IsZero() || s.Result.Broken != store.MachineEnded {
		t.Errorf("after the next start: %+v", s)
	}
	if s := h.service(t, "tidy"); s.Result.Broken != "" {
		t.Errorf("ended service: got %+v", s)
	}
}
