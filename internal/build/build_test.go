package build

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
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
		for i, name := range []string{"one", "two"} {
			known, err := b.layer(t.Context(), st, st.state.after("run", name), func(context.Context) (string, error) {
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
