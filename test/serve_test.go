//go:build machine

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/client"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// api is a client of "pyro serve".
type api struct {
	t       *testing.T
	p       *program
	keyFile string
	key     string
	address string
	server  *running
}

// serveAPI starts "pyro serve".
func serveAPI(t *testing.T) *api {
	t.Helper()
	p := workspaces(t)
	a := &api{t: t, p: p, keyFile: filepath.Join(p.state, "api-key")}
	a.start()
	return a
}

func (a *api) start(flags ...string) {
	a.t.Helper()
	a.server = a.p.start(append([]string{"serve", "--listen", "127.0.0.1:0", "--network-policy", "off", "--api-key-file", a.keyFile}, flags...)...)
	line := a.server.untilLine("serving at ")
	a.address = strings.TrimSpace(strings.TrimPrefix(line, "serving at "))
	key, err := os.ReadFile(a.keyFile)
	if err != nil {
		a.t.Fatal(err)
	}
	a.key = strings.TrimSpace(string(key))
}

// client returns a generated client of the server.
func (a *api) client() *client.ClientWithResponses {
	a.t.Helper()
	c, err := client.New(a.address, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// create creates a sandbox, and returns it and its path.
func (a *api) create(req client.NewSandbox) (b client.Sandbox, path string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	r, err := a.client().SandboxesCreateWithResponse(ctx, nil, req)
	if err != nil {
		a.t.Fatal(err)
	}
	if r.JSON201 == nil {
		a.t.Fatalf("create a sandbox: got %d: %s", r.StatusCode(), r.Body)
	}
	return *r.JSON201, "/v1/sandboxes/" + r.JSON201.Id
}

// stop stops the server as systemd does.
func (a *api) stop() {
	a.t.Helper()
	a.server.Process.Signal(syscall.SIGTERM)
	if err := a.server.Wait(); err != nil {
		a.t.Errorf("it ended with %v: %s", err, a.server.stderr)
	}
}

// kill kills the server and waits for its end.
func (a *api) kill() {
	a.server.Process.Signal(syscall.SIGKILL)
	a.server.Wait()
}

// newRequest returns a request. The headers are names and values.
func newRequest(ctx context.Context, method, url string, content io.Reader, headers ...string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		panic(err) // the test is wrong
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

// send sends a request, and returns the status and the body.
func (a *api) send(with *http.Client, req *http.Request) (int, string) {
	a.t.Helper()
	r, err := with.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	return r.StatusCode, string(text)
}

// try sends a request and decodes the answer. It returns 0 if the server does not answer.
func (a *api) try(ctx context.Context, method, path string, in, out any) int {
	a.t.Helper()
	content, kind := io.Reader(nil), "application/json"
	switch v := in.(type) {
	case nil:
	case *form:
		content, kind = &v.body, v.kind
	default:
		text, err := json.Marshal(in)
		if err != nil {
			a.t.Error(err)
			return 0
		}
		content = bytes.NewReader(text)
	}
	req := newRequest(ctx, method, a.address+path, content, "X-API-Key", a.key)
	if in != nil {
		req.Header.Set("Content-Type", kind)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil {
		return 0
	}
	switch out := out.(type) {
	case nil:
	case *string:
		*out = string(answer)
	default:
		if err := json.Unmarshal(answer, out); err != nil && len(answer) > 0 {
			a.t.Errorf("%s %s: %v: %q", method, path, err, answer)
		}
	}
	return r.StatusCode
}

// must sends a request and checks its status.
func (a *api) must(want int, method, path string, in, out any) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	var text string
	got := a.try(ctx, method, path, in, &text)
	if got != want {
		a.t.Fatalf("%s %s: got %d, want %d: %s", method, path, got, want, text)
	}
	if s, ok := out.(*string); ok {
		*s = text
	} else if out != nil {
		if err := json.Unmarshal([]byte(text), out); err != nil {
			a.t.Fatalf("%s %s: %v: %q", method, path, err, text)
		}
	}
}

// form is a body with a file.
type form struct {
	body bytes.Buffer
	kind string
}

func newForm(t *testing.T, path, content string) *form {
	t.Helper()
	f := &form{}
	w := multipart.NewWriter(&f.body)
	w.WriteField("path", path)
	file, err := w.CreateFormFile("file", "file")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(file, content)
	w.Close()
	f.kind = w.FormDataContentType()
	return f
}

// TestServe uses the API on a real machine, before and after the server is killed.
func TestServe(t *testing.T) {
	t.Parallel()
	a := serveAPI(t)
	b, _ := a.create(client.NewSandbox{})
	one := "/v1/capsules/" + b.Id
	var ended struct {
		Stdout, Stderr, Encoding string
		ExitCode                 int `json:"exit_code"`
	}
	a.must(200, "POST", one+"/exec", map[string]any{"cmd": "sh", "args": []string{"-c", "echo $WHO; pwd; echo wrong >&2; exit 7"}, "envs": map[string]string{"WHO": "you"}, "cwd": "/tmp"}, &ended)
	if ended.Stdout != "you\n/tmp\n" || ended.Stderr != "wrong\n" || ended.ExitCode != 7 || ended.Encoding != "utf-8" {
		t.Errorf("%+v", ended)
	}
	a.must(200, "POST", one+"/exec", map[string]any{"cmd": "printf", "args": []string{`\377`}}, &ended)
	if ended.Stdout != "/w==" || ended.Encoding != "base64" {
		t.Errorf("%+v", ended)
	}

	a.must(202, "POST", one+"/exec", map[string]any{"cmd": "sleep", "args": []string{"1000"}, "background": true, "tag": "sleeps"}, nil)
	var running struct {
		Processes []struct{ Tag, Cmd string }
	}
	a.must(200, "GET", one+"/processes", nil, &running)
	if len(running.Processes) != 1 || running.Processes[0].Tag != "sleeps" {
		t.Errorf("%+v", running)
	}

	big := strings.Repeat("0123456789abcdef", 1<<20) // 16 MiB
	a.must(204, "POST", one+"/files/write", newForm(t, "/srv/a/file", big), nil)
	var got string
	a.must(200, "POST", one+"/files/read", map[string]any{"path": "/srv/a/file"}, &got)
	if got != big {
		t.Errorf("got %d bytes, want %d", len(got), len(big))
	}
	a.must(200, "POST", one+"/files/mkdir", map[string]any{"path": "/srv/b/c"}, nil)
	var list struct {
		Entries []struct {
			Path, Type string
			Size       int64
		}
	}
	a.must(200, "POST", one+"/files/list", map[string]any{"path": "/srv", "depth": 3}, &list)
	if len(list.Entries) != 4 || list.Entries[1].Path != "/srv/a/file" || list.Entries[1].Size != int64(len(big)) {
		t.Errorf("%+v", list)
	}
	rename := func(want int, from, to string) {
		t.Helper()
		a.must(want, "POST", one+"/files/rename", map[string]any{"old_path": from, "new_path": to}, nil)
	}
	rename(204, "/srv/a/file", "/srv/b/c/moved")
	rename(204, "/srv/b", "/srv/renamed")
	rename(409, "/srv/renamed", "/srv/a")
	rename(404, "/srv/b", "/srv/new")
	rename(404, "/srv/a", "/srv/none/a")
	rename(400, "/srv/renamed", "/srv/renamed/c/d")
	rename(204, "/srv/renamed/c/moved", "/srv/a/file")
	a.must(200, "POST", one+"/files/read", map[string]any{"path": "/srv/a/file"}, &got)
	if got != big {
		t.Errorf("after renames, got %d bytes, want %d", len(got), len(big))
	}
	a.must(204, "POST", one+"/files/remove", map[string]any{"path": "/srv/a"}, nil)
	a.must(404, "POST", one+"/files/read", map[string]any{"path": "/srv/a/file"}, nil)

	a.must(200, "POST", one+"/pause", nil, &b)
	if b.Status != "paused" {
		t.Errorf("%+v", b)
	}
	a.must(409, "POST", one+"/exec", map[string]any{"cmd": "true"}, nil)
	a.must(409, "POST", one+"/pause", nil, nil)
	a.must(200, "POST", one+"/resume", nil, &b)
	a.must(409, "POST", one+"/resume", nil, nil)
	a.kill()
	a.start()
	a.must(200, "GET", one, nil, &b)
	if b.Status != "running" {
		t.Errorf("after the server was killed: %+v", b)
	}
	a.must(204, "DELETE", one+"/processes/sleeps", nil, nil)
	a.must(204, "POST", one+"/ping", nil, nil)
	a.must(204, "DELETE", one, nil, nil)
	a.must(404, "GET", one, nil, nil)
	a.stop()
}

// TestServeIsKilled kills the server at random moments of creations, pauses, resumes, forks and
// deletions. Afterwards the host has exactly the recorded sandboxes, in the wanted states.
// PYRO_TEST_KILLS increases the number of rounds, and with PYRO_TEST_LONG=1 there are 500.
func TestServeIsKilled(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	a := serveAPI(t)
	r := rand.New(rand.NewPCG(testenv.Seed(t, 1), 0))
	acknowledged, deleted := map[string]bool{}, map[string]bool{}
	for n := range testenv.Rounds(3+kills(), 500) {
		if n > 0 && n%25 == 0 {
			t.Logf("%d rounds", n)
		}
		var mu sync.Mutex
		var work sync.WaitGroup
		for range 3 {
			work.Go(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
				defer cancel()
				var b client.Sandbox
				if a.try(ctx, "POST", "/v1/sandboxes", map[string]any{"memory_mb": 128}, &b) != 201 {
					return
				}
				acknowledge := func(id string) {
					mu.Lock()
					defer mu.Unlock()
					acknowledged[id] = true
				}
				acknowledge(b.Id)
				one := "/v1/sandboxes/" + b.Id
				if a.try(ctx, "POST", one+"/pause", nil, nil) == 0 || a.try(ctx, "POST", one+"/resume", nil, nil) == 0 {
					return
				}
				var fork client.Sandbox
				if a.try(ctx, "POST", one+"/fork", map[string]any{}, &fork) != 201 {
					return
				}
				acknowledge(fork.Id)
				mu.Lock()
				deleted[b.Id] = true // from now on the sandbox can be missing
				mu.Unlock()
				a.try(ctx, "DELETE", one, nil, nil)
			})
		}
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		a.kill()
		work.Wait()
		a.start()
		var all []client.Sandbox
		a.must(200, "GET", "/v1/sandboxes", nil, &all)
		found := map[string]bool{}
		for _, b := range all {
			found[b.Id] = true
			if b.Status != "running" && b.Status != "paused" {
				t.Errorf("%s is %s", b.Id, b.Status)
			}
		}
		for id := range acknowledged {
			if !found[id] && !deleted[id] {
				t.Errorf("%s was acknowledged, and is lost", id)
			}
		}
		var listed struct {
			Workspaces []struct {
				State  string
				Labels map[string]string
			}
		}
		if err := json.Unmarshal([]byte(a.p.must("workspace", "list", "--json")), &listed); err != nil {
			t.Fatal(err)
		}
		if len(listed.Workspaces) != len(all) {
			t.Errorf("the host has %d workspaces, and the server %d sandboxes", len(listed.Workspaces), len(all))
		}
		paused := map[string]bool{}
		for _, w := range listed.Workspaces {
			paused[w.Labels["pyro-host-sandbox"]] = w.State == "paused"
		}
		for _, b := range all {
			if is, ok := paused[b.Id]; !ok || is != (b.Status == "paused") {
				t.Errorf("%s is %s, but its workspace is paused: %v (found: %v)", b.Id, b.Status, is, ok)
			}
		}
		for _, b := range all {
			a.must(204, "DELETE", "/v1/sandboxes/"+b.Id, nil, nil)
			delete(acknowledged, b.Id)
		}
	}
	a.stop()
	// Prune also removes the folders of interrupted creations. The supervisor of such a workspace
	// can live a little longer than the server. Until it ends, the folder is locked.
	testenv.Eventually(t, "no workspace is left", func() bool {
		a.p.must("env", "prune")
		left, _ := os.ReadDir(filepath.Join(a.p.state, "workspaces"))
		return len(left) == 0
	})
}
