//go:build machine

package test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestPublishedPorts connects from the host to a service in different ways, until the service is
// stopped or killed.
func TestPublishedPorts(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create("--network-policy", "egress+published-ports")
	p.shell(id, "echo hello >index.html; head -c 20000000 /dev/urandom >big")
	serve := func(name, publish string) map[string]any {
		t.Helper()
		p.must("workspace", "service", "start", id, name, "--publish", publish, "--ready-tcp", "8000", "--ready-timeout-seconds", "120",
			"--", "python3", "-m", "http.server", "8000")
		return p.object("workspace", "service", "status", id, name)
	}
	port := int(serve("web", "8000")["published_ports"].([]any)[0].(map[string]any)["host_port"].(float64))
	at := fmt.Sprint("http://127.0.0.1:", port, "/")
	if got, err := get(at); err != nil || got != "hello\n" {
		t.Errorf("%q, %v", got, err)
	}
	big, err := get(at + "big")
	sum := sha256.Sum256([]byte(big))
	if want := strings.Fields(p.shell(id, "sha256sum big"))[0]; err != nil || hex.EncodeToString(sum[:]) != want {
		t.Errorf("%d bytes, %v", len(big), err)
	}
	if text := p.must("workspace", "status", id); !strings.Contains(text, fmt.Sprintf("published 127.0.0.1:%d -> 8000", port)) {
		t.Error(text)
	}
	p.fails(4, fmt.Sprintf("port %d of 127.0.0.1 is in use", port), "workspace", "service", "start", id, "second", "--publish", fmt.Sprint(port, ":8000"), "--", "sleep", "1")
	if s := p.run(nil, "workspace", "service", "status", id, "second"); s.code == 0 {
		t.Errorf("started a service whose port is in use: %+v", s)
	}

	// Some clients disconnect or send nothing, and there are many clients.
	var clients sync.WaitGroup
	for range 300 {
		clients.Go(func() {
			c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
			if err != nil {
				return
			}
			c.Write([]byte("GET /big HTTP/1.0\r\n\r\n"))
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		})
	}
	clients.Wait()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) { // waits until the service has accepted all clients, because it serves only one client at a time
		got, err := get(at)
		if err == nil && got == "hello\n" {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("after clients disconnected: got %q, %v", got, err)
		}
	}

	p.must("workspace", "service", "stop", id, "web")
	closed := func(when string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // a killed process closes its files only when its last thread ends
			c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
			if err != nil {
				return
			}
			c.Close()
			if !strings.Contains(when, "killed") || time.Since(began) > testenv.Patience {
				t.Errorf("%s the port is open", when)
				return
			}
		}
	}
	closed("after its service was stopped")
	if s := p.object("workspace", "service", "status", id, "web"); len(s["published_ports"].([]any)) != 0 {
		t.Errorf("%v", s)
	}
	serve("web", fmt.Sprint(port, ":8000"))
	if got, err := get(at); err != nil || got != "hello\n" {
		t.Errorf("%q, %v", got, err)
	}
	supervisor, _, _ := p.find(id)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := gone(supervisor); err != nil {
		t.Fatal(err)
	}
	closed("after its supervisor was killed")
	testenv.Eventually(t, "the machine has ended", func() bool { return p.object("workspace", "status", id)["state"] == "stopped" })
	p.must("workspace", "start", id)
	closed("after a start")
	serve("web", fmt.Sprint(port, ":8000"))
	p.must("workspace", "stop", id)
	closed("after a stop")
}

func get(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return string(b), err
}

// whoami prints the identity of a machine in its network.
const whoami = `python3 -c '
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
name = struct.pack("256s", b"eth0")
print(fcntl.ioctl(s, 0x8927, name)[18:24].hex(":"))
print(socket.inet_ntoa(fcntl.ioctl(s, 0x8915, name)[20:24]))
'; cat /etc/machine-id; hostname; sed -n 's/nameserver //p' /etc/resolv.conf`

// TestMachineIdentities checks that machines from the same template have different identities, and
// that the identity of a workspace does not change.
func TestMachineIdentities(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	one, two := p.create("--network-policy", "egress"), p.create("--network-policy", "egress")
	a, b := p.shell(one, whoami), p.shell(two, whoami)
	first, second := strings.Fields(a), strings.Fields(b)
	if len(first) != 5 || len(second) != 5 {
		t.Fatalf("%q, %q", a, b)
	}
	for i := range first {
		address := i == 1 || i == 4 // all machines have the same addresses
		if (first[i] == second[i]) != address {
			t.Errorf("two machines are %s and %s", first[i], second[i])
		}
	}
	n := p.object("workspace", "status", one)["network"].(map[string]any)
	if n["mac"] != first[0] || !strings.HasPrefix(n["address"].(string), first[1]+"/") || n["gateway"] != first[4] {
		t.Errorf("status says %v of %q", n, a)
	}
	p.must("workspace", "stop", one)
	p.must("workspace", "start", one)
	if again := p.shell(one, whoami); again != a {
		t.Errorf("after a start it is %q, and was %q", again, a)
	}
	p.must("workspace", "reset", one)
	if again := p.shell(one, whoami); again != a {
		t.Errorf("after a reset it is %q, and was %q", again, a)
	}
	fork := strings.TrimSpace(p.must("workspace", "fork", one, "--id-only"))
	if other := strings.Fields(p.shell(fork, whoami)); other[0] == first[0] || other[2] == first[2] {
		t.Errorf("a fork is %q, as its source", other)
	}

	// A refused connection must fail in the machine and be logged.
	r := p.run(nil, "workspace", "exec", "-q", one, "--", "python3", "-c", `import socket; socket.create_connection(("10.0.0.1", 80), 60)`)
	if r.code == 0 || !strings.Contains(r.stderr, "refused") {
		t.Errorf("%+v", r)
	}
	if log := p.must("workspace", "network", "log", one); !strings.Contains(log, "10.0.0.1:80") || !strings.Contains(log, "refused: private address") {
		t.Error(log)
	}
	p.fails(5, "the network policy of the workspace is egress", "workspace", "service", "start", one, "web", "--publish", "80", "--", "sleep", "1")
}
