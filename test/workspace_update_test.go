//go:build machine

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// shape prints the processors and the memory in MiB that a machine sees.
const shape = `nproc; awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo`

// TestUpdateMachine changes the processors and the memory of workspaces that run, are stopped
// and are paused.
func TestUpdateMachine(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--vcpu-count", "1", "--mem-mib", "512")
	sees := func(when string, vcpus, memMiB int) {
		t.Helper()
		var n, mib int
		if _, err := fmt.Sscan(p.shell(id, shape), &n, &mib); err != nil || n != vcpus || mib > memMiB || mib < memMiB*3/4 {
			t.Errorf("%s: %d processors and %d MiB, not %d and %d; %v", when, n, mib, vcpus, memMiB, err)
		}
	}
	waits := func(when string, w map[string]any, fields string) {
		t.Helper()
		got, _ := w["applies_at_next_start"].([]any)
		if fmt.Sprint(got) != fields {
			t.Errorf("%s: %v wait, not %s", when, got, fields)
		}
	}
	update := func(args ...string) map[string]any {
		t.Helper()
		return p.object(append([]string{"workspace", "update", id}, args...)...)
	}
	p.must("workspace", "shell", "open", id)
	waits("an update of a workspace that runs", update("--vcpu-count", "2", "--mem-mib", "1024"), "[vcpu_count mem_mib]")
	sees("before a start", 1, 512)
	if r := p.run(nil, "workspace", "pause", id); r.code != 0 && !strings.Contains(r.stderr, "can't be saved") {
		t.Fatalf("%+v", r)
	} else if r.code == 0 {
		waits("a paused workspace", p.object("workspace", "status", id), "[vcpu_count mem_mib]")
		if r := p.run(nil, "workspace", "update", id, "--mem-mib", "768"); !strings.Contains(r.stderr, "its machine is paused, and resumes as it was") {
			t.Errorf("%+v", r)
		}
		sees("after a resume", 1, 512)
		waits("a resumed workspace", p.object("workspace", "status", id), "[vcpu_count mem_mib]")
	}
	p.must("workspace", "stop", id)
	waits("a stopped workspace", update("--mem-mib", "1024"), "[]")
	p.must("workspace", "start", id)
	sees("after a start", 2, 1024)
	waits("a workspace that was started", p.object("workspace", "status", id), "[]")
	update("--mem-mib", "512")
	p.must("workspace", "reset", id)
	sees("after a reset", 2, 512)

	w := update("--ttl-seconds", "3600")
	waits("a new time to live", w, "[]")
	if expires, err := time.Parse(time.RFC3339Nano, fmt.Sprint(p.object("workspace", "status", id)["expires_at"])); err != nil || time.Until(expires) < 50*time.Minute {
		t.Errorf("it expires at %v, %v", expires, err)
	}
}

// TestUpdateNetwork changes the network policy of a workspace while its programs have
// connections, while it is paused and while it is stopped.
func TestUpdateNetwork(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	p := h.pyro()
	id := p.create("--network-policy", "egress+published-ports", "--egress-allow", good)
	reaches := func(when string, want map[string]bool) {
		t.Helper()
		for address, yes := range want {
			r := p.run(nil, "workspace", "exec", "-q", id, "--", "python3", "-c", "import socket; socket.create_connection(('"+address+"', 443), 30)")
			if (r.code == 0) != yes {
				t.Errorf("%s: a connection to %s: %+v", when, address, r)
			}
		}
	}
	update := func(args ...string) map[string]any {
		t.Helper()
		return p.object(append([]string{"workspace", "update", id}, args...)...)
	}
	p.must("workspace", "service", "start", id, "client", "--publish", "8000", "--ready-command", "grep connected /workspace/client", "--ready-timeout-seconds", "120",
		"--", "python3", "-u", "-c", strings.ReplaceAll(connectedTo, "ADDRESS", good))
	port := p.object("workspace", "service", "status", id, "client")["published_ports"].([]any)[0].(map[string]any)["host_port"]
	answers := func() bool {
		out, err := h.host.command("bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%.0f; cat <&3", port)).Output()
		return err == nil && string(out) == "answer\n"
	}
	reaches("at first", map[string]bool{good: true, public: false})
	if !answers() {
		t.Error("the published port does not answer")
	}

	if w := update("--egress-allow", public); w["applies_at_next_start"] != nil {
		t.Errorf("%v", w)
	}
	reaches("with other rules", map[string]bool{good: false, public: true})
	if !answers() {
		t.Error("the published port does not answer after a change of rules")
	}
	testenv.Eventually(t, "the connection that the policy refuses is closed", func() bool { return strings.Contains(p.shell(id, "cat client"), "closed") })
	update("--clear-egress", "--network-policy", "egress")
	reaches("without rules", map[string]bool{good: true, public: true})
	if answers() {
		t.Error("the port is published, although the policy forbids it")
	}
	if s := p.object("workspace", "service", "status", id, "client"); len(s["published_ports"].([]any)) != 0 {
		t.Errorf("%v", s)
	}
	update("--network-policy", "off")
	reaches("without a network", map[string]bool{good: false, public: false})
	update("--network-policy", "egress", "--egress-deny", good)
	reaches("with a network again", map[string]bool{good: false, public: true})
	if log := p.must("workspace", "network", "log", id); !strings.Contains(log, "the network policy has changed: not allowed by any rule") {
		t.Error(log)
	}

	p.pause(id)
	update("--network-policy", "off")
	reaches("after a resume without a network", map[string]bool{public: false})
	p.must("workspace", "stop", id)
	p.must("workspace", "start", id)
	w := update("--network-policy", "egress", "--clear-egress")
	if got := fmt.Sprint(w["applies_at_next_start"]); got != "[network_policy]" {
		t.Errorf("a machine without a network: %s waits", got)
	}
	reaches("a machine that was started without a network", map[string]bool{public: false})
	p.must("workspace", "stop", id)
	p.must("workspace", "start", id)
	reaches("the next machine", map[string]bool{public: true})
}

// connectedTo is a program that has an idle connection to ADDRESS, and reports when it ends. It
// also serves the port 8000.
const connectedTo = `
import socket, threading
def wait(name, s):
    with open("/workspace/" + name, "w") as f:
        try:
            f.write("connected\n"); f.flush()
            f.write("got %r\nclosed\n" % s.recv(10))
        except OSError as e:
            f.write("failed: %s\nclosed\n" % e.strerror)
threading.Thread(target=wait, args=("client", socket.create_connection(("ADDRESS", 9), None))).start()
l = socket.create_server(("", 8000))
while True:
    s, _ = l.accept()
    s.sendall(b"answer\n"); s.close()
`
