//go:build machine

package test

import (
	"bytes"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// withEnvironment returns the program with its own cache, which contains only debian:12.
func (p *program) withEnvironment() *program {
	p.t.Helper()
	digest, _ := p.object("env", "pull", environment)["digest"].(string)
	digest = strings.TrimPrefix(digest, "sha256:")
	shared := p.withCache().cache
	p.cache = p.t.TempDir()
	for _, dir := range []string{"environments/names", "environments/content"} {
		if err := os.MkdirAll(filepath.Join(p.cache, dir), 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	const record = "environments/names/debian:12.json"
	text, err := os.ReadFile(filepath.Join(shared, record))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.cache, record), text, 0o644); err != nil {
		p.t.Fatal(err)
	}
	content := filepath.Join("environments/content", digest)
	for _, link := range []string{content, "kernels"} {
		target, err := filepath.EvalSymlinks(filepath.Join(shared, link))
		if err != nil {
			p.t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(p.cache, link)); err != nil {
			p.t.Fatal(err)
		}
	}
	return p
}

// buildContext writes a build context.
func buildContext(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const toolDockerfile = `# syntax=docker/dockerfile:1
ARG BASE=debian:12
FROM $BASE AS make
ARG WHO=world
WORKDIR /build
COPY src/ src/
RUN echo "made for $WHO" >out && cat src/* >>out && rm -r /usr/share/doc/bash
RUN --mount=type=secret,id=token --mount=type=secret,id=other,env=OTHER sha256sum </run/secrets/token >sum && test "$OTHER" = variable
RUN --mount=type=bind,source=src,target=/usr/share/doc/base-files ls /usr/share/doc/base-files >bound; sleep 1000 &
RUN --mount=type=cache,target=/var/cache/apt --mount=type=tmpfs,target=/t --mount=type=cache,target=/workspace,uid=5,mode=0700 \
    test "$(stat -c %a:%u /t /workspace | xargs)" = "1777:0 700:5" && echo one >>/var/cache/apt/count && cp /var/cache/apt/count counted

FROM $BASE AS unused
RUN exit 1

FROM $BASE
ENV GREETING=hi PATH=/opt/bin:$PATH
RUN useradd -m -u 1234 app
COPY --from=make /build/out /build/sum /build/bound /build/counted /srv/
COPY --chown=app:app --chmod=700 tool /opt/bin/tool
COPY <<END /etc/tool.conf
greeting $GREETING
END
RUN rm -r /usr/share/zoneinfo && mkdir /usr/share/zoneinfo && echo z >/usr/share/zoneinfo/z && rm -r /mnt && echo file >/mnt && ln /mnt /hard && ln -s hard /link
SHELL ["/bin/bash", "-ec"]
RUN <<END
[[ a == a ]]
echo bash >/srv/shell
END
RUN <<END
#!/usr/bin/env python3
print("python", 6 * 7, file=open("/srv/python", "w"))
END
USER app
WORKDIR /home/app/work
EXPOSE 80
VOLUME /data
HEALTHCHECK --interval=5s CMD true
LABEL org.opencontainers.image.title="a tool"
CMD ["tool"]
`

const toolCheck = `cat /srv/out /srv/bound /srv/counted /srv/shell /srv/python /etc/tool.conf /usr/share/zoneinfo/z /mnt /link
ls /usr/share/doc/bash /usr/share/zoneinfo; stat -c '%n %U %a %h' /opt/bin/tool /hard; tool; ls /run/secrets /var/cache/apt/count /usr/share/doc/base-files/a 2>&1 | wc -l`

const toolWant = `made for you
A
B
a
b
one
bash
python 42
greeting hi
z
file
file
/usr/share/doc/bash:
copyright

/usr/share/zoneinfo:
z
/opt/bin/tool app 700 1
/hard root 644 2
app in /home/app/work says hi
3
`

// TestEnvBuild builds an environment from a Dockerfile, in machines of each kind, and moves it
// through a layout and a registry.
func TestEnvBuild(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"gvisor", "tcg"} {
		t.Run(isolation, func(t *testing.T) {
			if isolation == "tcg" {
				skipUnlessAll(t)
			}
			p := workspaces(t).withEnvironment().with("PYRO_ISOLATION", isolation).with("OTHER", "variable")
			const secret = "the-secret-of-the-build"
			dir := buildContext(t, map[string]string{
				"Dockerfile": toolDockerfile, ".dockerignore": "ignored\n**/*.txt\n", "src/a": "A\n", "src/b": "B\n", "src/c.txt": "C\n", "ignored": secret,
				"tool": "#!/bin/sh\necho $(id -un) in $PWD says $GREETING\n",
			})
			token := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
				t.Fatal(err)
			}
			build := func(more ...string) string {
				t.Helper()
				args := append([]string{"env", "build", "-t", "tool:1", "--build-arg", "WHO=you", "--secret", "id=token,src=" + token, "--secret", "id=other,env=OTHER", dir}, more...)
				r := p.run(nil, args...)
				if r.code != 0 {
					t.Fatalf("%s%s", r.stdout, r.stderr)
				}
				return r.stderr
			}
			ran := func(out string) (n int) {
				for line := range strings.Lines(out) {
					if strings.Contains(line, "RUN ") && strings.HasPrefix(line, "#") {
						step, _, _ := strings.Cut(line, " ")
						if strings.Contains(out, step+" DONE") {
							n++
						}
					}
				}
				return n
			}
			if out := build(); ran(out) != 8 {
				t.Errorf("%d steps ran, not 8: %s", ran(out), out)
			}
			check := func(name string) {
				t.Helper()
				if got := p.must("run", name, "--", "sh", "-c", toolCheck); got != toolWant {
					t.Errorf("%s:\n%s\nnot\n%s", name, got, toolWant)
				}
			}
			check("tool:1")
			if out := build(); ran(out) != 0 {
				t.Errorf("%d steps ran again: %s", ran(out), out)
			}
			if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho changed\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if out := build(); ran(out) != 3 {
				t.Errorf("after a change of the tool, %d steps ran, not 3: %s", ran(out), out)
			}
			if got := p.must("run", "tool:1"); got != "changed\n" {
				t.Errorf("the changed tool says %q", got)
			}
			secretless(t, filepath.Join(p.cache, "environments"), secret)
			p.moves(t)
			p.commits(t)
		})
	}
}

// secretless checks that no layer and no cache of a build contains a text.
func secretless(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".tar") && !strings.HasSuffix(path, ".json") {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			t.Errorf("%s contains the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// moves saves, loads, pushes and pulls tool:1.
func (p *program) moves(t *testing.T) {
	t.Helper()
	layout := filepath.Join(t.TempDir(), "tool.tar")
	p.must("env", "save", "tool:1", layout)
	p.must("env", "load", layout, "-t", "loaded:1")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/tool:1"
	p.must("env", "push", "tool:1", target)
	for _, name := range []string{"loaded:1", target} {
		if got := p.must("run", name, "--", "sh", "-c", "tool; cat /srv/python; ls /usr/share/zoneinfo"); got != "changed\npython 42\nz\n" {
			t.Errorf("%s says %q", name, got)
		}
	}
}

// commits creates an environment from a workspace.
func (p *program) commits(t *testing.T) {
	t.Helper()
	id := p.create()
	p.shell(id, "echo kept >/workspace/mine; mkdir /workspace/sub; echo root >/opt/added; rm -r /srv")
	p.must("env", "commit", id, "-t", "committed:1")
	p.must("env", "commit", id, "-t", "committed:2", "--omit-workspace")
	const look = "cat /opt/added; ls -d /srv; ls /workspace"
	if got := p.run(nil, "run", "committed:1", "--", "sh", "-c", look); got.stdout != "root\nmine\nsub\n" {
		t.Errorf("the environment has %q", got.stdout)
	}
	if got := p.run(nil, "run", "committed:2", "--", "sh", "-c", look); got.stdout != "root\n" {
		t.Errorf("the environment without /workspace has %q", got.stdout)
	}
	p.shell(id, "test -e /workspace/mine && echo more >>/workspace/mine") // the workspace still runs
	made := strings.TrimSpace(p.must("workspace", "create", "committed:1", "--id-only"))
	if got := p.shell(made, look+"; cat mine"); got != "root\nmine\nsub\nkept\n" {
		t.Errorf("a workspace of the environment has %q", got)
	}
	if diff := p.must("workspace", "diff", made); diff != "" {
		t.Errorf("it begins with changes: %s", diff)
	}
}

// TestEnvBuildFails checks the errors of builds.
func TestEnvBuildFails(t *testing.T) {
	t.Parallel()
	p := newProgram(t).withEnvironment().sandboxed()
	dir := buildContext(t, map[string]string{"Dockerfile": "FROM debian:12\nRUN curl -sf http://refused.example/ || exit 3\n"})
	p.fails(5, "refused.example", "env", "build", "-t", "bad", "--network", "--egress-allow", "allowed.example", dir)
	for text, want := range map[string]string{
		"FROM debian:12\nRUN echo said; exit 7":                           "exit code 7",
		"FROM debian:12\n\nCOPY none /":                                   "build line 3",
		"FROM debian:12\nRUN --network=host true":                         "--network=host",
		"FROM debian:12\nADD https://example.org/x /":                     "ADD of the URL",
		"FROM debian:12\nRUN --mount=type=ssh true":                       "type=ssh",
		"FROM --platform=linux/s390x debian:12":                           "linux/s390x",
		"FROM debian:12\nUSER nobody-here\nRUN true":                      "nobody-here",
		"FROM debian:12\nRUN --mount=type=secret,id=x,required=true true": "--secret id=x",
		"FROM debain:12": "did you mean debian:12",
	} {
		dir := buildContext(t, map[string]string{"Dockerfile": text})
		r := p.run(nil, "env", "build", "-t", "bad", dir)
		if r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: exit code %d, or not %q: %s", text, r.code, want, r.stderr)
		}
	}
}

// TestEnvBuildFromScratch builds an environment that contains one program and nothing else.
func TestEnvBuildFromScratch(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"gvisor", "tcg"} {
		t.Run(isolation, func(t *testing.T) {
			if isolation == "tcg" {
				skipUnlessAll(t)
			}
			p := newProgram(t).withEnvironment().with("PYRO_ISOLATION", isolation)
			dir := buildContext(t, map[string]string{"main.go": `package main

import ("fmt"; "os")

func main() {
	if len(os.Args) > 1 {
		os.WriteFile("/made", []byte("by RUN"), 0o644)
	}
	text, _ := os.ReadFile("/made")
	fmt.Println("alone", string(text))
}
`, "go.mod": "module alone\ngo 1.26\n", "Dockerfile": "FROM scratch\nCOPY alone /bin/\nRUN [\"/bin/alone\", \"make\"]\nCMD [\"/bin/alone\"]\n"})
			cmd := exec.Command("go", "build", "-o", "alone", ".")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			p.must("env", "build", "-t", "alone", dir)
			if got := p.must("run", "alone"); got != "alone by RUN\n" {
				t.Errorf("it says %q", got)
			}
		})
	}
}
