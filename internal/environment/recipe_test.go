package environment

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// addLayer adds a layer that writes a file in /etc and removes /content.
func addLayer(t *testing.T, l *Layers, text string) string {
	t.Helper()
	digest, err := l.Add(t.Context(), func(to io.Writer) error {
		w := tar.NewWriter(to)
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755})
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/added", Mode: 0o640, Uid: 7, Size: int64(len(text))})
		io.WriteString(w, text)
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeChar, Name: "content"})
		return w.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// makeTool creates an environment of debian:12 with one layer.
func makeTool(t *testing.T, s *Store, name, text string) Environment {
	t.Helper()
	base, err := s.Use(t.Context(), "debian:12", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	l, err := s.OpenLayers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	full, err := NewName(name)
	if err != nil {
		t.Fatal(err)
	}
	recipe := Recipe{Base: base.Digest, Layers: []string{addLayer(t, l, text)}, Config: v1.Config{Env: []string{"A=b"}, User: "7", Cmd: []string{"sh"}}}
	env, err := l.Make(t.Context(), Environment{Name: full, Source: SourceBuild, Env: recipe.Config.Env, User: "7"}, recipe, nil)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// checkTool checks the content of an environment that makeTool made.
func checkTool(t *testing.T, s *Store, name, text string) *ImageRef {
	t.Helper()
	ref, err := s.Use(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ref.Close() })
	tree, err := OpenTree(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	f, err := tree.Open("etc/added")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(f)
	if _, gone := tree.Lstat("content"); string(got) != text || !errors.Is(gone, fs.ErrNotExist) {
		t.Errorf("etc/added has %q, and content: %v", got, gone)
	}
	if _, err := tree.Lstat("etc/packages"); err != nil {
		t.Errorf("the base is missing: %v", err)
	}
	if ref.User != "7" || len(ref.Env) != 1 {
		t.Errorf("configuration %+v", ref.Environment)
	}
	return ref
}

func TestMadeEnvironment(t *testing.T) {
	s := testStore(t.TempDir())
	env := makeTool(t, s, "tool:1", "hello")
	checkTool(t, s, "tool:1", "hello").Close()
	if again := makeTool(t, s, "other", "hello"); again.Digest != env.Digest {
		t.Errorf("the same layers gave %s and %s", env.Digest, again.Digest)
	}
	if _, err := s.Pull(t.Context(), "tool:1", true, nil); fault.KindOf(err) != fault.Precondition {
		t.Errorf("pull it again: %v", err)
	}
	for _, name := range []string{"debian:12", "a@sha256:" + strings.Repeat("a", 64), "A", "debain"} {
		if _, err := NewName(name); err == nil {
			t.Errorf("%s is a name", name)
		}
	}

	// A damaged image and a missing one are made again from the layers, and never pulled.
	path := filepath.Join(s.contentDir(env.Digest), imageFile)
	os.Chmod(path, 0o600)
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkTool(t, s, "tool:1", "hello").Close()
	if err := os.RemoveAll(s.contentDir(env.Digest)); err != nil {
		t.Fatal(err)
	}
	checkTool(t, s, "tool:1", "hello").Close()
	if err := os.RemoveAll(s.contentDir(env.Digest)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.root, "layers")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Use(t.Context(), "tool:1", nil); fault.KindOf(err) != fault.Corrupt || fault.HintOf(err) == "" {
		t.Errorf("without its layer: %v", err)
	}
}

// TestPruneLayers checks that Prune keeps layers and bases that an environment needs, and nothing
// while a build runs.
func TestPruneLayers(t *testing.T) {
	s := testStore(t.TempDir())
	makeTool(t, s, "tool:1", "kept")
	l, err := s.OpenLayers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unused := addLayer(t, l, "unused")
	stepped := addLayer(t, l, "of a step")
	key := strings.Repeat("a", 64)
	if err := l.KeepStep(key, stepped); err != nil {
		t.Fatal(err)
	}
	has := func(layer string) bool { return exists(s.layerPath(layer)) }
	if _, err := s.Prune(t.Context(), PruneOptions{All: true}); err != nil || !has(unused) {
		t.Fatalf("a build runs: %v", err)
	}
	if got, known := l.Step(key); !known || got != stepped {
		t.Errorf("the step has %q, %v", got, known)
	}
	l.Close()
	makeTool(t, s, "tool:1", "kept")
	if _, err := s.Prune(t.Context(), PruneOptions{}); err != nil || has(unused) || !has(stepped) {
		t.Errorf("%v; unused kept: %v, result of a step kept: %v", err, has(unused), has(stepped))
	}
	checkTool(t, s, "tool:1", "kept").Close()
	done, err := s.Prune(t.Context(), PruneOptions{All: true})
	if err != nil || has(stepped) {
		t.Errorf("all: %+v, %v", done, err)
	}
	if _, known := l.Step(key); known {
		t.Error("the result of the step was kept")
	}
}

// TestPruneLostImage checks that Prune removes an environment whose image is missing.
func TestPruneLostImage(t *testing.T) {
	s := testStore(t.TempDir())
	env := makeTool(t, s, "tool:1", "lost")
	if err := os.RemoveAll(s.contentDir(env.Digest)); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		done, err := s.Prune(t.Context(), PruneOptions{All: true, DryRun: dry})
		if err != nil || !slices.ContainsFunc(done.Removed, func(r Removed) bool { return r.Name == env.Name }) {
			t.Errorf("dry run %v: %+v, %v", dry, done, err)
		}
	}
	if _, err := s.Inspect(t.Context(), "tool:1"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it is still there: %v", err)
	}
}

// TestLayoutAndRegistry saves, loads, pushes and pulls an environment.
func TestLayoutAndRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	defer remote.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s := testStore(t.TempDir())
	makeTool(t, s, "tool:1", "moved")
	for _, path := range []string{filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "layout.tar")} {
		if err := s.Save(t.Context(), "tool:1", path, nil); err != nil {
			t.Fatal(err)
		}
		other := testStore(t.TempDir())
		env, err := other.Load(t.Context(), path, "", nil)
		if err != nil || env.Name != "index.docker.io/library/tool:1" {
			t.Fatalf("load %s: %+v, %v", path, env, err)
		}
		checkTool(t, other, "tool:1", "moved")
		if _, err := other.Load(t.Context(), path, "mine:2", nil); err != nil {
			t.Fatal(err)
		}
		checkTool(t, other, "mine:2", "moved")
	}
	target := strings.TrimPrefix(server.URL, "http://") + "/team/tool:1"
	digest, err := s.Push(t.Context(), "tool:1", target, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := testStore(t.TempDir())
	env, err := other.Pull(t.Context(), target, false, nil)
	if err != nil || env.ManifestDigest != digest {
		t.Fatalf("pull: %+v, %v", env, err)
	}
	checkTool(t, other, target, "moved")
	if again, err := s.Push(t.Context(), "tool:1", target, nil); err != nil || again != digest {
		t.Errorf("pushed again: %s, %v, not %s", again, err, digest)
	}
}

func TestHostileLayouts(t *testing.T) {
	s := testStore(t.TempDir())
	makeTool(t, s, "tool:1", "x")
	good := filepath.Join(t.TempDir(), "good")
	if err := s.Save(t.Context(), "tool:1", good, nil); err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(good, "blobs", "sha256", "*"))
	if err != nil || len(blobs) == 0 {
		t.Fatal(blobs, err)
	}
	for name, harm := range map[string]func(folder string) error{
		"no index":      func(f string) error { return os.Remove(filepath.Join(f, "index.json")) },
		"a wrong index": func(f string) error { return os.WriteFile(filepath.Join(f, "index.json"), []byte("{"), 0o644) },
		"an index without images": func(f string) error {
			return os.WriteFile(filepath.Join(f, "index.json"), []byte(`{"schemaVersion":2,"manifests":[]}`), 0o644)
		},
		"a link": func(f string) error {
			path := filepath.Join(f, "blobs", "sha256", filepath.Base(blobs[0]))
			return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path))
		},
		"changed blobs": func(f string) error {
			for _, b := range blobs {
				path := filepath.Join(f, "blobs", "sha256", filepath.Base(b))
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				text[len(text)/2] ^= 1
				if err := os.WriteFile(path, text, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "bad")
			if err := os.CopyFS(folder, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			if err := harm(folder); err != nil {
				t.Fatal(err)
			}
			other := testStore(t.TempDir())
			_, err := other.Load(context.WithoutCancel(t.Context()), folder, "", nil)
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.NotFound {
				t.Errorf("kind %q: %v", k, err)
			}
			if all, err := other.List(t.Context()); err != nil || len(all) != len(catalogue) {
				t.Errorf("it was installed: %v, %v", all, err)
			}
		})
	}
}
