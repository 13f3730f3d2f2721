//go:build machine

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestServeEgressQuota sends data from sandboxes of "pyro serve" to another computer. When the team
// has spent its quota, its sandboxes must be paused, until the quota is raised.
func TestServeEgressQuota(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	h := newHosts(t)
	p := h.pyro()
	keyFile := filepath.Join(p.state, "api-key")
	server := p.start("serve", "--listen", "127.0.0.1:18080", "--network-policy", "egress", "--api-key-file", keyFile)
	link := loginLink(server)
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	header := "X-API-Key: " + strings.TrimSpace(string(key))
	// call makes a request. If want is 0, any status is right.
	call := func(want int, header, method, path string, in, out any) {
		t.Helper()
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		argv := append(h.host.enter(), "curl", "-sS", "-w", "\n%{http_code}", "-X", method, "-H", header, "http://127.0.0.1:18080"+path)
		if in != nil {
			argv = append(argv, "-H", "Content-Type: application/json", "-d", string(text))
		}
		answer, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).Output()
		end := max(bytes.LastIndexByte(answer, '\n'), 0)
		body, status := answer[:end], bytes.TrimSpace(answer[end:])
		if err != nil || want != 0 && string(status) != fmt.Sprint(want) {
			t.Fatalf("%s %s: got %s, %v, want %d: %s", method, path, status, err, want, body)
		}
		if out != nil {
			if err := json.Unmarshal(body, out); err != nil {
				t.Fatalf("%s %s: %v: %s", method, path, err, body)
			}
		}
	}
	var session struct{ Token string }
	call(200, "Accept: */*", "POST", "/v1/auth/link", map[string]any{"token": link[strings.LastIndexByte(link, '/')+1:]}, &session)
	operator := "Authorization: Bearer " + session.Token
	var me struct {
		Team string `json:"team_id"`
	}
	call(200, operator, "GET", "/v1/me", nil, &me)
	quotas := "/v1/teams/" + me.Team + "/quotas"
	quota := func(mb int) {
		t.Helper()
		call(200, operator, "PUT", quotas, map[string]any{"sandboxes": 0, "vcpus": 0, "memory_mb": 0, "disk_mb": 0, "egress_mb": mb}, nil)
	}
	used := func() int {
		t.Helper()
		var q struct {
			Used struct {
				MB int `json:"egress_mb"`
			}
		}
		call(200, header, "GET", quotas, nil, &q)
		return q.Used.MB
	}
	type sandbox struct{ ID, Status string }
	create := func() (one string) {
		t.Helper()
		var b sandbox
		call(201, header, "POST", "/v1/sandboxes", map[string]any{"memory_mb": 256}, &b)
		return "/v1/sandboxes/" + b.ID
	}
	status := func(one string) string {
		t.Helper()
		var b sandbox
		call(200, header, "GET", one, nil, &b)
		return b.Status
	}
	// upload sends requests of 200 kB each.
	upload := func(want int, one string, requests int, out any) {
		t.Helper()
		script := fmt.Sprintf(`for i in $(seq %d); do
			exec 3<>/dev/tcp/%s/8080
			{ printf 'POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 200000\r\n\r\n'; head -c 200000 /dev/zero; } >&3
			head -n 1 <&3 | grep -q 200 || exit 9
		done`, requests, public)
		call(want, header, "POST", one+"/exec", map[string]any{"cmd": "bash", "args": []string{"-c", script}, "timeout_sec": 120}, out)
	}
	send := func(one string, requests int) {
		t.Helper()
		var r struct {
			ExitCode int `json:"exit_code"`
			Stderr   string
		}
		upload(200, one, requests, &r)
		if r.ExitCode != 0 {
			t.Fatalf("%+v", r)
		}
	}

	quota(4)
	a, b := create(), create()
	send(a, 6)
	testenv.Eventually(t, "1 MB is counted", func() bool { return used() == 1 })
	call(200, header, "POST", a+"/pause", nil, nil)
	call(200, header, "POST", a+"/resume", nil, nil)
	send(a, 6)
	call(204, header, "DELETE", a, nil, nil) // before the next report
	if got := used(); got != 2 {
		t.Errorf("after the deletion, %d MB are counted, want 2", got)
	}
	if got := status(b); got != "running" {
		t.Errorf("within the quota, it is %s", got)
	}
	c := create()
	upload(0, c, 11, nil) // the sandbox can be paused before the script ends
	for _, one := range []string{b, c} {
		testenv.Eventually(t, "the sandboxes are paused", func() bool { return status(one) == "paused" })
	}
	call(429, header, "POST", b+"/resume", nil, nil)
	call(429, header, "POST", "/v1/sandboxes", map[string]any{"memory_mb": 256}, nil)
	quota(100)
	call(200, header, "POST", b+"/resume", nil, nil)
	send(b, 1)
	for _, one := range []string{b, c} {
		call(204, header, "DELETE", one, nil, nil)
	}
	server.Process.Signal(os.Interrupt)
	if err := server.Wait(); err != nil {
		t.Errorf("the server ended with %v: %s", err, server.stderr)
	}
}
