//go:build machine

package test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestServices runs services of every kind in a machine.
func TestServices(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	start := func(name string, flags []string, script string) {
		t.Helper()
		p.must(append(append([]string{"workspace", "service", "start", id, name, "--ready-timeout-seconds", "120"}, flags...), "--", "sh", "-c", script)...)
	}
	start("web", []string{"--ready-http", "http://127.0.0.1:8000/"}, "echo hello >index.html; exec python3 -m http.server 8000 --bind 127.0.0.1")
	if got := p.shell(id, `python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:8000/").read())'`); !strings.Contains(got, "hello") {
		t.Errorf("%q", got)
	}
	start("port", []string{"--ready-tcp", "9000"}, `exec python3 -c 'import socket, time; s = socket.create_server(("127.0.0.1", 9000)); time.sleep(1000)'`)
	start("file", []string{"--ready-file", "sub/ready"}, "sleep 0.5; mkdir sub; : >sub/ready; sleep 1000")
	start("command", []string{"--ready-command", "test -e by-command"}, "sleep 0.5; : >by-command; sleep 1000")
	start("forks", nil, "setsid sh -c 'sleep 71.5; sleep 71.6' >/dev/null 2>&1 & sleep 0.5; exit 4")
	testenv.Eventually(t, "the service has exited", func() bool {
		return strings.Contains(p.must("workspace", "service", "status", id, "forks"), "exited (exit code 4)")
	})
	if left := p.shell(id, "grep -lz '^71[.]' /proc/[0-9]*/cmdline | wc -l"); left != "0\n" {
		t.Errorf("%s processes of the service still run", left)
	}
	p.fails(5, `port 9000 belongs to service "port"`, "workspace", "service", "start", id, "rival", "--ready-tcp", "9000", "--ready-timeout-seconds", "120", "--", "sh", "-c", "python3 -m http.server 9000 --bind 127.0.0.1; sleep 3; exit 1")
	p.must("workspace", "exec", id, "--", "sh", "-c", "setsid python3 -m http.server 9001 >/dev/null 2>&1 & while ! python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9001))' 2>/dev/null; do sleep 0.1; done")
	p.fails(124, `port 9001 belongs to another program, "python3"`, "workspace", "service", "start", id, "rival", "--ready-http", "http://localhost:9001/", "--ready-timeout-seconds", "10", "--", "sleep", "1000")
	p.fails(124, "/workspace/sub/ready has not changed since before the start", "workspace", "service", "start", id, "stale", "--ready-file", "sub/ready", "--ready-timeout-seconds", "1", "--", "sleep", "1000")
	p.fails(124, "not ready within 1s", "workspace", "service", "start", id, "never", "--ready-tcp", "9", "--ready-timeout-seconds", "1", "--", "sleep", "1000")
	w := p.object("workspace", "status", id)
	if w["service_count"] != 8.0 || w["running_service_count"] != 4.0 {
		t.Errorf("%v services, of which %v run", w["service_count"], w["running_service_count"])
	}
	p.must("workspace", "service", "stop", id, "web")
	if r := p.run(nil, "workspace", "exec", "-q", id, "--", "python3", "-c", `import socket; socket.create_connection(("127.0.0.1", 8000), 1)`); r.code == 0 {
		t.Error("a stopped service answers")
	}
	if logs := p.run(nil, "workspace", "service", "logs", id, "web"); !strings.Contains(logs.stderr, `"GET / HTTP/1.1" 200`) {
		t.Errorf("%+v", logs)
	}

	// If the supervisor of a workspace is killed, no process of the workspace must remain. The
	// status must report that.
	pid, _, _ := p.find(id)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the machine has ended", func() bool { return p.object("workspace", "status", id)["state"] == "stopped" })
	if list := p.object("workspace", "service", "list", id); list["running_count"] != 0.0 || list["count"] != 8.0 {
		t.Errorf("%v", list)
	}
	if s := p.object("workspace", "service", "status", id, "port"); s["state"] != "stopped" || s["state_reason"] != "its machine ended" {
		t.Errorf("%v", s)
	}
	p.must("workspace", "start", id)
	if s := p.object("workspace", "service", "status", id, "port"); s["state"] != "stopped" {
		t.Errorf("%v", s)
	}
	start("port", []string{"--ready-tcp", "localhost:9000"}, `exec python3 -c 'import socket, time; s = socket.create_server(("127.0.0.1", 9000)); time.sleep(1000)'`)
}
