//go:build machine

package test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// connected is a program that has idle connections to the remote server and from the host. It
// reports when the connections end.
const connected = `
import socket, threading
def wait(name, s):
    with open("/workspace/" + name, "w") as f:
        try:
            f.write("connected\n"); f.flush()
            f.write("got %r\n" % s.recv(10))
        except OSError as e:
            f.write("failed: %s\n" % e.strerror)
def serve():
    l = socket.create_server(("", 8000))
    s, _ = l.accept()
    wait("published", s)
    while True: # from then on it answers
        s, _ = l.accept()
        s.sendall(b"answer\n"); s.close()
threading.Thread(target=serve).start()
for name, to in ("egress", ("` + public + `", 9)), ("egress6", ("` + public6 + `", 9)):
    threading.Thread(target=wait, args=(name, socket.create_connection(to, None))).start()
`

// TestConnectionsOfPausedMachine checks that programs see the end of their connections after a
// pause.
func TestConnectionsOfPausedMachine(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	p := h.pyro()
	id := p.create("--network-policy", "egress+published-ports")
	p.must("workspace", "service", "start", id, "server", "--publish", "8000", "--ready-command", "test -e egress -a -e egress6", "--ready-timeout-seconds", "120", "--", "python3", "-u", "-c", connected)
	port := p.object("workspace", "service", "status", id, "server")["published_ports"].([]any)[0].(map[string]any)["host_port"]
	at := fmt.Sprintf("/dev/tcp/127.0.0.1/%.0f", port)
	client := h.host.command("bash", "-c", "exec 3<>"+at+"; cat <&3")
	var said bytes.Buffer
	client.Stderr = &said
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- client.Wait() }()
	names := []string{"egress", "egress6", "published"}
	send := func(what string, until func(string) bool) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			r := p.run(nil, "workspace", "exec", "-q", id, "--", "tail", "-n", "1", "egress", "egress6", "published")
			reported := 0
			for _, name := range names {
				_, line, _ := strings.Cut(r.stdout, "==> "+name+" <==\n")
				line, _, _ = strings.Cut(line, "\n")
				if until(line) {
					reported++
				}
			}
			if reported == len(names) {
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: %s", what, r.stdout)
			}
		}
	}
	send("before", func(line string) bool { return line == "connected" })
	p.pause(id)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("a client of a machine that was paused waits")
	}
	p.must("workspace", "resume", id)
	send("after", func(line string) bool { return strings.HasPrefix(line, "failed: ") || line == "got b''" })
	if out, err := h.host.command("bash", "-c", "exec 3<>"+at+"; cat <&3").CombinedOutput(); err != nil || string(out) != "answer\n" {
		t.Errorf("the port answers %q, %v", out, err)
	}
	if r := p.run(nil, "workspace", "exec", "-q", id, "--", "python3", "-c", `import socket; socket.create_connection(("`+public+`", 9), 30)`); r.code != 0 {
		t.Errorf("a new connection: %+v", r)
	}
}
