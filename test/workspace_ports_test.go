//go:build machine

package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// published returns the port of the host that leads to a port of a service.
func (p *program) published(id, name string, guest float64) string {
	p.t.Helper()
	s := p.object("workspace", "service", "status", id, name)
	for _, port := range s["published_ports"].([]any) {
		if port := port.(map[string]any); port["guest_port"] == guest {
			return fmt.Sprintf("http://127.0.0.1:%.0f/", port["host_port"])
		}
	}
	p.t.Fatalf("port %.0f is not published: %v", guest, s)
	return ""
}

// answers waits until a URL answers with a text.
func answers(t *testing.T, url, want, when string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		got, err := get(url)
		if err == nil && got == want {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: %q, %v", when, got, err)
		}
	}
}

// TestPortForward forwards ports to a server in a machine without a network, which listens only on
// the loopback address. During that time it stops, starts and pauses the workspace.
func TestPortForward(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	p.shell(id, "echo hello >index.html")
	serve := func() {
		t.Helper()
		p.must("workspace", "service", "start", id, "web", "--ready-tcp", "8000", "--ready-timeout-seconds", "120",
			"--", "python3", "-m", "http.server", "--bind", "127.0.0.1", "8000")
	}
	serve()
	forward := p.start("workspace", "port-forward", id, ":8000", ":9")
	out := bufio.NewReader(forward.out)
	var ports [2]int
	for i := range ports {
		line, err := out.ReadString('\n')
		if _, scanned := fmt.Sscanf(line, "Forwarding from 127.0.0.1:%d -> ", &ports[i]); err != nil || scanned != nil {
			t.Fatalf("it said %q, %v: %s", line, err, forward.stderr)
		}
	}
	at, closed := fmt.Sprintf("http://127.0.0.1:%d/", ports[0]), fmt.Sprintf("http://127.0.0.1:%d/", ports[1])
	if got, err := get(at); got != "hello\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := get(closed); err == nil {
		t.Errorf("a closed port: %q", got)
	}
	p.must("workspace", "stop", id)
	if got, err := get(at); err == nil {
		t.Errorf("a stopped workspace: %q", got)
	}
	p.must("workspace", "start", id)
	serve()
	answers(t, at, "hello\n", "after a start")
	p.pause(id)
	if got, err := get(at); got != "hello\n" || err != nil {
		t.Errorf("a paused workspace: %q, %v", got, err)
	}
	if state := p.stateOf(id); state != "started" {
		t.Errorf("after a connection, the workspace is %s", state)
	}
	if err := forward.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	r := forward.end()
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if r.code != 0 || len(lines) != 2 || !strings.Contains(lines[0], "a connection to port 9 failed") || !strings.Contains(lines[1], "it is stopped") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}

// TestPublishOnRunningService publishes and closes a port of a service that runs.
func TestPublishOnRunningService(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create("--network-policy", "egress+published-ports")
	p.shell(id, "echo hello >index.html")
	p.must("workspace", "service", "start", id, "web", "--ready-tcp", "8000", "--ready-timeout-seconds", "120", "--", "python3", "-m", "http.server", "8000")
	p.must("workspace", "service", "publish", id, "web", "8000", "9")
	at := p.published(id, "web", 8000)
	if got, err := get(at); got != "hello\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	p.fails(4, "port 8000 is already published", "workspace", "service", "publish", id, "web", "10", "8000")
	p.fails(3, "port 10 is not published", "workspace", "service", "unpublish", id, "web", "8000", "10")
	p.pause(id)
	p.must("workspace", "resume", id)
	if again := p.published(id, "web", 8000); again != at {
		t.Errorf("it was published at %s, and is at %s after a pause", at, again)
	}
	answers(t, at, "hello\n", "after a pause")
	p.must("workspace", "service", "unpublish", id, "web", "8000")
	if got, err := get(at); err == nil {
		t.Errorf("a closed port: %q", got)
	}
	p.published(id, "web", 9)
	p.must("workspace", "service", "stop", id, "web")
	p.fails(5, "it is stopped", "workspace", "service", "publish", id, "web", "8000")
}

// TestPortTakenDuringPause takes a published port while the workspace is paused. The service gets
// another port, and its own port again at a later resume or restart.
func TestPortTakenDuringPause(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create("--network-policy", "egress+published-ports")
	p.must("workspace", "service", "start", id, "web", "--restart", "always", "--publish", "8000", "--ready-tcp", "8000", "--ready-timeout-seconds", "120", "--", "python3", "-c", crashing)
	published := func(s map[string]any) (host int, requested any) {
		t.Helper()
		port := s["published_ports"].([]any)[0].(map[string]any)
		return int(port["host_port"].(float64)), port["requested_host_port"]
	}
	status := func() map[string]any { return p.object("workspace", "service", "status", id, "web") }
	port, _ := published(status())
	taken := func() net.Listener {
		t.Helper()
		p.pause(id)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := taken()
	r := p.run(nil, "workspace", "exec", id, "--", "true")
	other, requested := published(status())
	said := fmt.Sprintf("pyro: port 8000 of service \"web\" is now at 127.0.0.1:%d, because another program took port %d\n", other, port)
	if other == port || requested != float64(port) || strings.Count(r.stderr, said) != 1 || r.code != 0 {
		t.Errorf("port %d, requested %v, %+v", other, requested, r)
	}
	if text := p.must("workspace", "status", id); !strings.Contains(text, fmt.Sprintf("127.0.0.1:%d -> 8000 (instead of %d, which another program took)", other, port)) {
		t.Error(text)
	}
	answers(t, fmt.Sprintf("http://127.0.0.1:%d/", other), "run 1", "the other port")

	p.pause(id) // the port is still taken
	w := p.object("workspace", "resume", id)
	if again, requested := published(w["network"].(map[string]any)); again != other || requested != float64(port) {
		t.Errorf("the port was %d and is %d, requested %v", other, again, requested)
	}
	p.pause(id)
	l.Close()
	if r := p.run(nil, "workspace", "resume", id); r.code != 0 || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	if again, requested := published(status()); again != port || requested != nil {
		t.Errorf("the port was %d and is %d, requested %v", port, again, requested)
	}

	l = taken()
	p.must("workspace", "resume", id)
	other, _ = published(status())
	l.Close()
	get(fmt.Sprintf("http://127.0.0.1:%d/crash", other))
	answers(t, fmt.Sprintf("http://127.0.0.1:%d/", port), "run 2", "after a restart")
	if again, requested := published(status()); again != port || requested != nil {
		t.Errorf("the port was %d and is %d, requested %v", port, again, requested)
	}
	if got, err := get(fmt.Sprintf("http://127.0.0.1:%d/", other)); err == nil {
		t.Errorf("the other port is open: %q", got)
	}
}

// crashing is a server that ends with its first request to /crash, after it has counted its runs.
const crashing = `
import http.server, os
runs = int(open("/workspace/runs").read()) + 1 if os.path.exists("/workspace/runs") else 1
open("/workspace/runs", "w").write(str(runs))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            os._exit(3)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"run %d" % runs)
http.server.HTTPServer(("", 8000), Handler).serve_forever()
`

// TestRestartedService crashes a service, in one case shortly before a pause of its workspace. The
// service keeps its port.
func TestRestartedService(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--network-policy", "egress+published-ports")
	// The port is outside of the ephemeral range. Another run of the tests has another port.
	port := 20_000 + os.Getpid()%10_000
	p.must("workspace", "service", "start", id, "web", "--restart", "on-failure", "--publish", fmt.Sprint(port, ":8000"), "--ready-tcp", "8000", "--ready-timeout-seconds", "120",
		"--", "python3", "-c", crashing)
	at := p.published(id, "web", 8000)
	restarted := func(count float64, when string) {
		t.Helper()
		answers(t, at, fmt.Sprintf("run %.0f", count+1), when)
		s := p.object("workspace", "service", "status", id, "web")
		r := s["restarts"].(map[string]any)
		if r["count"] != count || r["policy"] != "on-failure" || count > 0 && r["last_exit_code"] != 3.0 || s["state"] != "running" || p.published(id, "web", 8000) != at {
			text, _ := json.Marshal(s)
			t.Errorf("%s: %s", when, text)
		}
	}
	restarted(0, "at the start")
	get(at + "crash")
	restarted(1, "after a crash")
	p.pause(id)
	p.must("workspace", "resume", id)
	restarted(1, "after a pause")
	get(at + "crash")
	restarted(2, "after a crash in a resumed machine")
	for count := 3.0; count < 6; count++ { // the machine is saved while the service waits or starts
		get(at + "crash")
		p.pause(id)
		if s := p.object("workspace", "service", "status", id, "web"); s["state"] != "paused" {
			t.Errorf("state %v", s["state"])
		}
		p.must("workspace", "resume", id)
		restarted(count, "after a crash and a pause")
	}
	p.must("workspace", "service", "stop", id, "web")
	time.Sleep(time.Second)
	if s := p.object("workspace", "service", "status", id, "web"); s["state"] != "stopped" || s["restarts"].(map[string]any)["count"] != 5.0 {
		t.Errorf("after a stop: %v", s)
	}
}

// TestPausedRestarts repeatedly pauses a workspace while its service ends soon after each start.
// The service is started again after each resume.
func TestPausedRestarts(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	p.must("workspace", "service", "start", id, "loop", "--restart", "on-failure", "--", "sh", "-c", "sleep 0.05; exit 3")
	count := 0.0
	for round := range 7 {
		for last, deadline := count, time.Now().Add(testenv.Patience); count <= last; time.Sleep(50 * time.Millisecond) {
			s := p.object("workspace", "service", "status", id, "loop")
			count = s["restarts"].(map[string]any)["count"].(float64)
			if s["ended_at"] != nil || time.Now().After(deadline) {
				t.Fatalf("after %d pauses: %v", round, s)
			}
		}
		p.pause(id)
		p.must("workspace", "resume", id)
	}
}
