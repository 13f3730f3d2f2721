package daemon

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestRestarts tests restart policies of services. All subtests share one machine.
func TestRestarts(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *home, *remote.Client){
			"always": testRestartAlways, "on failure": testRestartOnFailure, "stop during a delay": testStopDuringDelay,
			"stop during a run": testStopDuringRun, "not ready": testRestartNotReady, "another policy": testRestartPolicies,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, h, c)
			})
		}
	})
}

// again starts a service that runs a line of shell with a restart policy.
func again(c *remote.Client, t *testing.T, name, line string, p store.RestartPolicy, ready *remote.Readiness) error {
	start := remote.ServiceStart{Command: sh(line), Ready: ready, Restart: p}
	start.Command.Cwd = "/workspace"
	return c.StartService(t.Context(), name, start)
}

func testRestartAlways(t *testing.T, h *home, c *remote.Client) {
	check(t, again(c, t, "always", `echo run; echo x >>runs; sleep 71.$(wc -l <runs) & case $(wc -l <runs) in 1) sleep 0.1; exit 0;; 2) sleep 0.1; kill -9 $$;; esac; wait`, store.RestartAlways, nil))
	testenv.Eventually(t, "the third run works", func() bool { return len(processes(t, "71.3")) > 0 })
	s := h.service(t, "always")
	if r := s.Result.Restarts; r.Count != 2 || r.Waits || r.Exit.Code != 137 || r.At.IsZero() || !s.EndedAt.IsZero() || s.ReadyAt.IsZero() {
		t.Errorf("%+v", s)
	}
	if left := len(processes(t, "71.1")) + len(processes(t, "71.2")); left > 0 {
		t.Errorf("%d processes of earlier runs are left", left)
	}
	testenv.Eventually(t, "all runs have printed", func() bool { out, _ := h.logs(t, "always"); return out == "run\nrun\nrun\n" })
	check(t, c.StopService(t.Context(), "always"))
	if s := h.service(t, "always"); s.EndedAt.IsZero() || !s.Result.Stopped || s.Result.Code != 143 || s.Result.Restarts.Exit.Code != 143 || s.Result.Restarts.Count != 2 {
		t.Errorf("after a stop: %+v", s)
	}
}

func testRestartOnFailure(t *testing.T, h *home, c *remote.Client) {
	check(t, again(c, t, "failure", `echo x >>failures; sleep 0.1; test $(wc -l <failures) = 3`, store.RestartOnFailure, nil))
	s := h.awaitEnd(t, "failure")
	if r := s.Result.Restarts; s.Result.Code != 0 || r.Count != 2 || r.Waits || r.Exit.Code != 0 || s.Result.Stopped {
		t.Errorf("%+v", s)
	}
}

func testStopDuringDelay(t *testing.T, h *home, c *remote.Client) {
	check(t, again(c, t, "delay", `exit 3`, store.RestartOnFailure, nil))
	testenv.Eventually(t, "the delay is long", func() bool {
		r := h.service(t, "delay").Result.Restarts
		return r.Count >= 4 && r.Waits
	})
	if err := again(c, t, "delay", `true`, "", nil); fault.KindOf(err) != fault.Exists {
		t.Errorf("a second service of the name: %v", err)
	}
	check(t, c.StopService(t.Context(), "delay"))
	s := h.service(t, "delay")
	if s.EndedAt.IsZero() || !s.Result.Stopped || s.Result.Code != 3 || s.Result.Broken != "" || s.Result.Restarts.Waits {
		t.Errorf("%+v", s)
	}
}

func testStopDuringRun(t *testing.T, h *home, c *remote.Client) {
	check(t, again(c, t, "running", `trap 'exit 0' TERM; : >trapped; while :; do sleep 0.05; done`, store.RestartAlways, ready(client.Readiness{File: "/workspace/trapped"})))
	check(t, c.StopService(t.Context(), "running"))
	if s := h.service(t, "running"); !s.Result.Stopped || s.Result.Code != 0 || s.Result.Restarts.Count != 0 || s.EndedAt.IsZero() {
		t.Errorf("%+v", s)
	}
}

// testRestartNotReady checks that a program that ends before it is ready is not started again.
func testRestartNotReady(t *testing.T, h *home, c *remote.Client) {
	err := again(c, t, "unready", `echo why; exit 7`, store.RestartAlways, ready(client.Readiness{File: "/no/such/file"}))
	if fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), "with exit code 7") {
		t.Errorf("%v", err)
	}
	if s := h.service(t, "unready"); s.EndedAt.IsZero() || s.Result.Failed == "" || s.Result.Restarts.Count != 0 {
		t.Errorf("%+v", s)
	}
	if err := again(c, t, "missing", `exit`, "sometimes", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an unknown policy: %v", err)
	}
}

// testRestartPolicies checks that a service is not started again without a policy.
func testRestartPolicies(t *testing.T, h *home, c *remote.Client) {
	for _, p := range []store.RestartPolicy{"", store.RestartNo} {
		name := "never" + string(p)
		check(t, again(c, t, name, `sleep 0.1; exit 1`, p, nil))
		if s := h.awaitEnd(t, name); s.Result.Restarts != (store.Restarts{}) || s.Spec.Restart != "" || s.Result.Code != 1 {
			t.Errorf("%q: %+v", p, s)
		}
	}
}

// TestMachineEndsDuringDelay checks that a service that waits for a restart ends with its machine.
func TestMachineEndsDuringDelay(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	check(t, again(c, t, "waits", `exit 3`, store.RestartAlways, nil))
	testenv.Eventually(t, "it waits", func() bool { return h.service(t, "waits").Result.Restarts.Count >= 3 })
	check(t, c.Stop(t.Context(), "the test", false))
	if s := h.service(t, "waits"); s.EndedAt.IsZero() || !s.Result.Stopped || s.Result.Restarts.Waits {
		t.Errorf("%+v", s)
	}
}
