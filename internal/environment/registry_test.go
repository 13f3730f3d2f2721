package environment

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// servedConfig is the configuration of the image that serveImage serves.
var servedConfig = v1.Config{
	Env: []string{"A=b"}, User: "app", WorkingDir: "/srv", Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve", "a b"},
	OnBuild: []string{"ENV B=c"}, Shell: []string{"/bin/ash", "-c"}, Labels: map[string]string{"a": "b"}, ExposedPorts: map[string]struct{}{"80/tcp": {}},
	Volumes: map[string]struct{}{"/data": {}}, StopSignal: "SIGINT", Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "true"}},
}

// serveImage serves one image as tool:1 from a registry in this process. The function change can
// answer requests instead of the registry.
func serveImage(t *testing.T, entries []tar.Header, change func(http.ResponseWriter, *http.Request, http.Handler) bool) (reference string) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, strings.Repeat("x", int(h.Size)))
	}
	w.Close()
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(b.Bytes(), types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	file, _ := image.ConfigFile()
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = servedConfig
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	ready := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ready || change == nil || !change(w, r, inner) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		remote.DefaultTransport.(*http.Transport).CloseIdleConnections() // the push has used this transport
		server.Close()
	})
	reference = strings.TrimPrefix(server.URL, "http://") + "/tool:1"
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	ready = true
	return reference
}

func TestPullFromRegistry(t *testing.T) {
	s := testStore(t.TempDir())
	reference := serveImage(t, []tar.Header{{Typeflag: tar.TypeReg, Name: "bin/app", Size: 1000, Mode: 0o755}}, nil)
	if _, err := s.Inspect(t.Context(), reference); fault.KindOf(err) != fault.NotFound || fault.HintOf(err) != "pyro env pull "+reference {
		t.Errorf("before: %v", err)
	}
	env := must[Environment](t)(s.Pull(t.Context(), reference, false, nil))
	if diff := cmp.Diff([]any{"oci", reference, []string{"A=b"}, "app", "/srv"}, []any{env.Source, env.Reference, env.Env, env.User, env.WorkDir}); diff != "" || !isDigest(env.ManifestDigest) {
		t.Error(diff, env.ManifestDigest)
	}
	found := must[Environment](t)(s.Inspect(t.Context(), reference))
	if argv, err := found.Command(); err != nil || !slices.Equal(argv, []string{"/bin/app", "serve", "a b"}) {
		t.Errorf("its command: %q, %v", argv, err)
	}
	all := must[[]Environment](t)(s.List(t.Context()))
	if len(all) != 4 {
		t.Errorf("lists %+v", all)
	}
	must[*ImageRef](t)(s.Use(t.Context(), reference, nil)).Close()
	checkConfig(t, s, reference)
	layout := t.TempDir()
	if err := s.Save(t.Context(), reference, layout, nil); err != nil {
		t.Fatal(err)
	}
	other := testStore(t.TempDir())
	must[Environment](t)(other.Load(t.Context(), layout, "loaded:1", nil))
	checkConfig(t, other, "loaded:1")
	if _, err := s.Pull(t.Context(), reference, true, nil); err != nil {
		t.Errorf("pull it again: %v", err)
	}
	pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true}))
	if len(pruned.Removed) != 1 || pruned.Removed[0].Name != env.Name {
		t.Errorf("pruned %+v", pruned)
	}
}

// checkConfig checks that builds from an environment, and its exports, have the configuration of
// the served image.
func checkConfig(t *testing.T, s *Store, name string) {
	t.Helper()
	_, recipe, err := s.Recipe(name)
	if err != nil {
		t.Fatal(err)
	}
	img, closeImage, err := s.image(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeImage()
	file := must[*v1.ConfigFile](t)(img.ConfigFile())
	for where, got := range map[string]v1.Config{"builds": recipe.Config, "exports": file.Config} {
		if diff := cmp.Diff(servedConfig, got); diff != "" {
			t.Errorf("%s of %s: %s", where, name, diff)
		}
	}
}

func TestRegistryFaultsLeaveNothing(t *testing.T) {
	blob := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
	}
	file := []tar.Header{{Typeflag: tar.TypeReg, Name: "a", Size: 1 << 20}}
	for name, c := range map[string]struct {
		entries []tar.Header
		change  func(http.ResponseWriter, *http.Request, http.Handler) bool
		kind    fault.Kind
	}{
		"gone in the middle of a layer": {file, func(w http.ResponseWriter, r *http.Request, inner http.Handler) bool {
			if !blob(r) {
				return false
			}
			whole := httptest.NewRecorder()
			inner.ServeHTTP(whole, r)
			if whole.Body.Len() < 1<<20 { // the configuration
				return false
			}
			w.Header().Set("Content-Length", fmt.Sprint(whole.Body.Len()))
			w.Write(whole.Body.Bytes()[:1<<19])
			w.(http.Flusher).Flush()
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
			return true
		}, fault.Unavailable},
		"wrong digest": {file, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if !blob(r) {
				return false
			}
			io.WriteString(w, "something else")
			return true
		}, fault.Corrupt},
		"climbing archive":                  {[]tar.Header{{Typeflag: tar.TypeReg, Name: "../../../../tmp/pyro-was-here", Size: 1}}, nil, fault.Corrupt},
		"archive that makes no file system": {[]tar.Header{{Typeflag: tar.TypeReg, Name: strings.Repeat("n", 300)}}, nil, fault.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t.TempDir())
			reference := serveImage(t, c.entries, c.change)
			_, err := s.Pull(t.Context(), reference, false, nil)
			if fault.KindOf(err) != c.kind {
				t.Errorf("kind %q, want %q: %v", fault.KindOf(err), c.kind, err)
			}
			if left := leftovers(t, s); left != nil {
				t.Errorf("left: %v", left)
			}
			if all := must[[]Environment](t)(s.List(t.Context())); len(all) != 3 {
				t.Errorf("lists %+v", all)
			}
		})
	}
}
