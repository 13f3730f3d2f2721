//go:build machine

package test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// someTools prints an archive of a few programs and their libraries. Links become files.
const someTools = `cd / && tar -chf - $(ldd /bin/sh /bin/sleep /bin/cat /usr/bin/id | grep -o '/[^ :]*' | sed 's:^/::' | sort -u)`

// serveImage creates an image with a few programs of Debian and two users. It serves the image from
// a registry in this process, and returns the image's name. The program gets its own cache.
func (p *program) serveImage(config v1.Config) (image string) {
	p.t.Helper()
	tools := p.run(nil, "run", "-q", environment, "--", "sh", "-c", someTools)
	if tools.code != 0 {
		p.t.Fatal(tools.stderr)
	}
	var users bytes.Buffer
	w := tar.NewWriter(&users)
	for _, h := range []tar.Header{
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "srv/app/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
	} {
		w.WriteHeader(&h)
	}
	for path, text := range map[string]string{
		"etc/passwd": "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:100::/home/bob:/bin/sh\n",
		"etc/group":  "root:x:0:\nann:x:1000:\nusers:x:100:\nstaff:x:50:\n",
	} {
		w.WriteHeader(&tar.Header{Name: path, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))})
		io.WriteString(w, text)
	}
	if err := w.Close(); err != nil {
		p.t.Fatal(err)
	}
	made, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(tools.stdout), types.OCILayer), static.NewLayer(users.Bytes(), types.OCILayer))
	if err != nil {
		p.t.Fatal(err)
	}
	file, _ := made.ConfigFile()
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if made, err = mutate.ConfigFile(made, file); err != nil {
		p.t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	p.t.Cleanup(server.Close)
	image = strings.TrimPrefix(server.URL, "http://") + "/tools:1"
	ref, err := name.ParseReference(image)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := remote.Write(ref, made); err != nil {
		p.t.Fatal(err)
	}
	p.withCache()
	if err := os.Remove(filepath.Join(p.cache, "environments")); err != nil { // the image must not stay in the shared cache
		p.t.Fatal(err)
	}
	return image
}

// TestImageCommand checks that a machine obeys ENV, USER, WORKDIR, ENTRYPOINT and CMD of its image.
func TestImageCommand(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	image := p.serveImage(v1.Config{
		Env: []string{"PATH=/bin:/usr/bin", "GREETING=hello"}, User: "ann", WorkingDir: "/srv/app",
		Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{`echo "$GREETING"; id -un; pwd; exit 7`},
	})
	for range 2 { // the first run pulls the image
		if r := p.run(nil, "run", "-q", image); r.code != 7 || r.stdout != "hello\nann\n/srv/app\n" {
			t.Fatalf("%+v", r)
		}
	}
	if r := p.run(nil, "run", "-q", image, "--", "id", "-u"); r.code != 0 || r.stdout != "1000\n" {
		t.Errorf("a command instead: %+v", r)
	}
	if e := p.object("env", "inspect", image); fmt.Sprint(e["entrypoint"], e["cmd"]) != "[/bin/sh -c] [echo \"$GREETING\"; id -un; pwd; exit 7]" {
		t.Errorf("%v", e)
	}
	if r := p.run(nil, "run", "-q", environment); r.code != 125 || !strings.Contains(r.stderr, "missing argument CMD") {
		t.Errorf("an environment without a command: %+v", r)
	}
}

// TestUser runs programs as other users than the image's, by name and by number.
func TestUser(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	image := p.serveImage(v1.Config{Env: []string{"PATH=/bin:/usr/bin"}, User: "ann"})
	const who = `echo $(id -u):$(id -g)`
	users := map[string]string{
		"": "1000:1000", "root": "0:0", "bob": "1001:100", "1001": "1001:100", "bob:staff": "1001:50", "1001:0": "1001:0", "4000:4001": "4000:4001",
	}
	for user, want := range users {
		if r := p.run(nil, "run", "-q", "--user", user, "--cwd", "/tmp", image, "--", "sh", "-c", who+"; pwd"); r.code != 0 || r.stdout != want+"\n/tmp\n" {
			t.Errorf("run as %q: %+v", user, r)
		}
	}
	id := strings.TrimSpace(p.must("workspace", "create", image, "--id-only"))
	for user, want := range users {
		if r := p.run(nil, "workspace", "exec", "-q", "--user", user, id, "--", "sh", "-c", who); r.code != 0 || r.stdout != want+"\n" {
			t.Errorf("exec as %q: %+v", user, r)
		}
	}
	n := strings.TrimSpace(p.must("workspace", "exec", "-dq", "--user", "bob", id, "--", "sh", "-c", who+`; echo "$HOME"`))
	p.must("workspace", "wait", id, n)
	if out := p.must("workspace", "logs", id, n); !strings.Contains(out, "1001:100\n/home/bob\n") {
		t.Errorf("a detached command: %q", out)
	}
	shell := p.openShell(id, "--user", "4000:4001")
	p.must("workspace", "shell", "write", id, shell, "--input", "echo this is $(id -u):$(id -g)")
	p.awaitShell(id, shell, "this is 4000:4001")

	const unknown = `user "carl": no such user`
	p.fails(125, unknown, "run", "--user", "carl", image, "--", "id")
	p.fails(125, unknown, "workspace", "exec", "--user", "carl", id, "--", "id")
	p.fails(125, unknown, "workspace", "exec", "-d", "--user", "carl", id, "--", "id")
	p.fails(2, unknown, "workspace", "shell", "open", id, "--user", "carl")
	p.fails(2, unknown, "workspace", "service", "start", id, "carls", "--user", "carl", "--", "id")
	p.fails(125, `user "bob:friends": no such group`, "run", "--user", "bob:friends", image, "--", "id")
}

// TestServiceUser checks that a service keeps its user when it is restarted, even after a pause.
func TestServiceUser(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	p.must("workspace", "service", "start", id, "loop", "--user", "nobody", "--restart", "always", "--ready-command", "test $(id -un) = nobody",
		"--", "sh", "-c", "id -un; until test -e /tmp/ready; do sleep 0.1; done; sleep 0.3")
	p.must("workspace", "exec", id, "--", "touch", "/tmp/ready") // before this, it must not end
	restarted := func(more float64) {
		t.Helper()
		count := func() float64 {
			return p.object("workspace", "service", "status", id, "loop")["restarts"].(map[string]any)["count"].(float64)
		}
		first := count()
		testenv.Eventually(t, "it is started again", func() bool { return count() >= first+more })
	}
	restarted(2)
	p.pause(id)
	p.must("workspace", "resume", id)
	restarted(3) // the last one might not have printed its line yet
	out := p.must("workspace", "service", "logs", id, "loop", "--all")
	if lines := strings.Fields(out); len(lines) < 5 || strings.ReplaceAll(strings.Join(lines, ""), "nobody", "") != "" {
		t.Errorf("%q", out)
	}
}
