package build

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBuilder returns a builder that can run all instructions but RUN, in a store of its own.
func testBuilder(t *testing.T, text string, files ...string) *builder {
	t.Helper()
	dir := t.TempDir()
	d := dirs.Dirs{Cache: filepath.Join(dir, "cache"), State: filepath.Join(dir, "state")}
	b := &builder{manager: &workspace.Manager{Dirs: d, Environments: environment.Open(d)}}
	b.Name = "index.docker.io/library/built:1"
	b.Request.Context = t.TempDir()
	for i := 0; i < len(files); i += 2 {
		put(t, filepath.Join(b.Request.Context, files[i]), files[i+1])
	}
	b.reset(t, text)
	return b
}

// reset prepares another build in the same store.
func (b *builder) reset(t *testing.T, text string) {
	t.Helper()
	file, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	*b = builder{Request: b.Request, manager: b.manager, file: file, images: map[string]*opened{}}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// built runs a build and returns the files of the environment.
func built(t *testing.T, b *builder) []string {
	t.Helper()
	if _, err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref, err := b.manager.Environments.Use(t.Context(), b.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	tree, err := environment.OpenTree(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	return listed(t, tree)
}

// fileLayer stores a layer with one file.
func fileLayer(t *testing.T, b *builder, content string) string {
	t.Helper()
	digest, err := b.layers.Add(t.Context(), func(to io.Writer) error {
		w := tar.NewWriter(to)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.Fields(content)[0], Mode: 0o644, Size: int64(len(content))}
		err := w.WriteHeader(h)
		_, writeErr := io.WriteString(w, content)
		return errors.Join(err, writeErr, w.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestCacheOfOneBuild checks that a build never combines the cached results of different builds.
func TestCacheOfOneBuild(t *testing.T) {
	b := testBuilder(t, "FROM scratch")
	var err error
	if b.layers, err = b.manager.Environments.OpenLayers(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.layers.Close()
	// steps runs two steps. It returns the layers, and which steps were cached.
	steps := func(noCache bool, results ...string) (layers []string, cached []bool) {
		t.Helper()
		b.NoCache = noCache
		base, err := b.layers.Scratch(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		st := &stage{state: b.first(base)}
		defer st.state.close()
		for i, step := range []string{"one", "two"} {
			known, err := b.layer(t.Context(), st, st.state.after("run", step), func(context.Context) (string, error) {
				if results[i] == "" {
					return "", errors.New("it failed")
				}
				return fileLayer(t, b, results[i]), nil
			})
			if err != nil {
				break
			}
			cached = append(cached, known)
		}
		return st.state.layers, cached
	}
	first, _ := steps(false, "one 1", "two 1")
	if again, cached := steps(false, "one 2", "two 2"); len(again) != 2 || again[0] != first[0] || again[1] != first[1] || !cached[0] || !cached[1] {
		t.Fatalf("nothing has changed, but cached: %v", cached)
	}
	failed, _ := steps(true, "one 3", "")
	mixed, cached := steps(false, "one 4", "two 4")
	if len(failed) != 1 || len(mixed) != 2 || !cached[0] || mixed[0] != failed[0] {
		t.Fatalf("the first step of the failed build is not used: %v", cached)
	}
	if cached[1] || mixed[1] == first[1] {
		t.Error("the second step of the first build is used after the first step of another one")
	}
}

// TestTriggers builds from a stage and an image whose triggers need a stage and an argument.
func TestTriggers(t *testing.T) {
	b := testBuilder(t, `FROM scratch
ONBUILD ARG WHO=nobody
ONBUILD COPY <<END /who
$WHO
END
ONBUILD COPY --from=extra /made /copied
`)
	built(t, b)
	b.reset(t, "FROM scratch AS below\nCOPY <<END /made\nmade\nEND\nFROM below AS extra\nFROM built:1\n")
	b.Name, b.Args = "index.docker.io/library/built:2", map[string]string{"WHO": "me"}
	if got, want := strings.Join(built(t, b), ""), "copied made\nwho me\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	b.reset(t, "FROM built:1\n")
	b.Args = map[string]string{"WHOM": "me"}
	if _, err := b.run(t.Context()); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an argument that nothing declares: %v", err)
	}
	b.reset(t, "FROM scratch AS base\nONBUILD ARG WHO\nFROM base\n")
	b.Args = map[string]string{"WHO": "me"}
	if _, err := b.run(t.Context()); err != nil {
		t.Errorf("an argument of a trigger in the Dockerfile: %v", err)
	}
}

// TestLayersOfTheBaseCount checks the limit for layers of an environment over several builds.
func TestLayersOfTheBaseCount(t *testing.T) {
	many := func(from, n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "COPY <<E /%d\n%d\nE\n", from+i, i)
		}
		return text.String()
	}
	const half = environment.MaxLayers/2 + 1
	b := testBuilder(t, "FROM scratch\n"+many(0, half))
	built(t, b)
	b.reset(t, "FROM built:1\n"+many(half, half))
	b.Name = "index.docker.io/library/built:2"
	if _, err := b.run(t.Context()); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("%d layers: %v", 2*half, err)
	}
}

// TestPulledConfiguration builds from a pulled image that has triggers, a shell and labels.
func TestPulledConfiguration(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	defer remote.DefaultTransport.(*http.Transport).CloseIdleConnections()
	file, err := empty.Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Env: []string{defaultPath}, Shell: []string{"/bin/ash", "-c"}, Labels: map[string]string{"a": "b"}, OnBuild: []string{"COPY x /triggered", "LABEL c=d"}}
	image, err := mutate.ConfigFile(empty.Image, file)
	if err != nil {
		t.Fatal(err)
	}
	reference := strings.TrimPrefix(server.URL, "http://") + "/tool:1"
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	b := testBuilder(t, "FROM "+reference+"\nCMD run\n", "x", "X")
	if got := strings.Join(built(t, b), ""); got != "triggered X" {
		t.Errorf("the trigger made %q", got)
	}
	_, recipe, err := b.manager.Environments.Recipe(b.Name)
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{Env: []string{defaultPath}, Shell: file.Config.Shell, Labels: map[string]string{"a": "b", "c": "d"}, Cmd: []string{"/bin/ash", "-c", "run"}}
	if diff := cmp.Diff(want, recipe.Config); diff != "" {
		t.Error(diff)
	}
}
