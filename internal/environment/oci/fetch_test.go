package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// fakeRegistry is a registry in this process. It can simulate faults.
type fakeRegistry struct {
	host  string
	fault func(w http.ResponseWriter, r *http.Request) bool // returns true if it sent the response
}

func newRegistry(t *testing.T) *fakeRegistry {
	f := &fakeRegistry{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.fault == nil || !f.fault(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		remote.DefaultTransport.(*http.Transport).CloseIdleConnections() // The push has used this transport.
		server.Close()
	})
	f.host = strings.TrimPrefix(server.URL, "http://")
	return f
}

func (f *fakeRegistry) push(t *testing.T, tag string, config v1.Config, layers ...[]byte) name.Reference {
	t.Helper()
	image := v1.Image(empty.Image)
	var err error
	for _, l := range layers {
		if image, err = mutate.AppendLayers(image, static.NewLayer(l, types.OCILayer)); err != nil {
			t.Fatal(err)
		}
	}
	file, _ := image.ConfigFile()
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	ref, err := Parse(f.host + "/" + tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	return ref
}

func unlimited(int64) error { return nil }

func TestFetch(t *testing.T) {
	r := newRegistry(t)
	want := v1.Config{Env: []string{"PATH=/bin", "A=b=c"}, User: "1000:1000", WorkingDir: "srv", Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"exit 3"}, Labels: map[string]string{"org.opencontainers.image.title": "A tool"}}
	big := strings.Repeat("x", 3<<20)
	ref := r.push(t, "tool:1", want, gzipped(t, layer(t, "bin/", "bin/sh=#!")), gzipped(t, layer(t, "srv/", "srv/big="+big)))
	var events []progress.Event
	var asked []int64
	space := func(n int64) error { asked = append(asked, n); return nil }
	img, err := Fetch(t.Context(), ref, t.TempDir(), nil, space, func(e progress.Event) { events = append(events, e) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{want.Env, want.User, "/srv", want.Entrypoint, want.Cmd, "A tool"}, []any{img.Config.Env, img.Config.User, img.Config.WorkingDir, img.Config.Entrypoint, img.Config.Cmd, img.Description}); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	if err := img.WriteTar(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, &out); !slices.Equal(got, []string{"bin/", "bin/sh=#!", "srv/", "srv/big=" + big}) {
		t.Errorf("got %d entries", len(got))
	}
	if len(asked) != 2 || asked[1] < 3<<20 {
		t.Errorf("requested space: got %v", asked)
	}
	if last := events[len(events)-2]; last.Phase != "pulling layers" || last.Done != last.Total || last.Total != asked[0] {
		t.Errorf("the last progress of pulling was %+v", last)
	}
	byDigest, err := Parse(r.host + "/tool@" + img.ManifestDigest)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Fetch(t.Context(), byDigest, t.TempDir(), nil, unlimited, nil); err != nil || again.ManifestDigest != img.ManifestDigest {
		t.Errorf("by digest: %v", err)
	}
}

func TestFetchFaults(t *testing.T) {
	content := gzipped(t, layer(t, "a="+randomText(200_000)))
	blobs := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
	}
	var layerRequests atomic.Int32
	for name, c := range map[string]struct {
		fault func(w http.ResponseWriter, r *http.Request) bool
		kind  fault.Kind
	}{
		"gone": {func(w http.ResponseWriter, _ *http.Request) bool {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
			return true
		}, fault.Unavailable},
		"gone in the middle of a layer": {func(w http.ResponseWriter, r *http.Request) bool {
			if !blobs(r) || layerRequests.Add(1) == 1 { // the first request is for the configuration
				return false
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			w.Write(content[:len(content)/2])
			w.(http.Flusher).Flush()
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
			return true
		}, fault.Unavailable},
		"another layer": {func(w http.ResponseWriter, r *http.Request) bool {
			if !blobs(r) {
				return false
			}
			changed := bytes.Clone(content)
			changed[len(changed)/2] ^= 1
			w.Write(changed)
			return true
		}, fault.Corrupt},
		"bad tail": {func(w http.ResponseWriter, r *http.Request) bool {
			if !blobs(r) {
				return false
			}
			changed := bytes.Clone(content)
			changed[len(changed)-1] ^= 1 // a byte after the end of the tar archive
			w.Write(changed)
			return true
		}, fault.Corrupt},
		"another manifest": {func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/sha256:") {
				return false
			}
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			io.WriteString(w, `{"schemaVersion":2}`)
			return true
		}, fault.Corrupt},
		"unauthorised": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}, fault.Permission},
		"forbidden": {func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		}, fault.Permission},
		"rubbish": {func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			io.WriteString(w, "<html>")
			return true
		}, fault.Corrupt},
		"stalled": {func(w http.ResponseWriter, r *http.Request) bool {
			if blobs(r) {
				<-r.Context().Done()
				return true
			}
			return false
		}, fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "stalled" {
				defer func(was time.Duration) { stallTimeout = was }(stallTimeout)
				stallTimeout = 2 * time.Second
			}
			layerRequests.Store(0)
			registry := newRegistry(t)
			ref := registry.push(t, "tool:1", v1.Config{}, content)
			if name == "another manifest" {
				image, err := remote.Image(ref)
				if err != nil {
					t.Fatal(err)
				}
				digest, _ := image.Digest()
				ref, _ = Parse(registry.host + "/tool@" + digest.String())
			}
			registry.fault = c.fault
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
			defer cancel()
			_, err := Fetch(ctx, ref, t.TempDir(), nil, unlimited, nil)
			if fault.KindOf(err) != c.kind {
				t.Errorf("kind %q, want %q: %v", fault.KindOf(err), c.kind, err)
			}
		})
	}
}

// TestFetchReach checks that Fetch connects only to allowed addresses, and that it uses no
// credentials there.
func TestFetchReach(t *testing.T) {
	r := newRegistry(t)
	ref := r.push(t, "tool:1", v1.Config{}, gzipped(t, layer(t, "a=1")))
	var stolen atomic.Int32
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	t.Cleanup(private.Close)
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	if err := os.WriteFile(filepath.Join(config, "config.json"), fmt.Appendf(nil, `{"auths": {%q: {"username": "u", "password": "p"}}}`, r.host), 0o600); err != nil {
		t.Fatal(err)
	}
	onlyRegistry := func(to netip.AddrPort) error {
		if to.String() != r.host {
			return errors.New("private address")
		}
		return nil
	}
	demandLogin := func(w http.ResponseWriter, req *http.Request) bool {
		if _, _, ok := req.BasicAuth(); ok {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	redirectBlobs := func(w http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/blobs/") {
			http.Redirect(w, req, private.URL, http.StatusTemporaryRedirect)
			return true
		}
		return false
	}
	elsewhere := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="x"`, strings.Replace(private.URL, "127.0.0.1", "localhost", 1)))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	for name, c := range map[string]struct {
		ref   string
		reach Reach
		fault func(w http.ResponseWriter, r *http.Request) bool
		kind  fault.Kind
	}{
		"allowed":                         {ref.Name(), onlyRegistry, nil, ""},
		"all, with a login":               {ref.Name(), nil, demandLogin, ""},
		"no credentials":                  {ref.Name(), onlyRegistry, demandLogin, fault.Permission},
		"a private address":               {strings.TrimPrefix(private.URL, "http://") + "/tool:1", onlyRegistry, nil, fault.Permission},
		"its name":                        {strings.Replace(strings.TrimPrefix(private.URL, "http://"), "127.0.0.1", "localhost", 1) + "/tool:1", onlyRegistry, nil, fault.Permission},
		"a redirect to a private address": {ref.Name(), onlyRegistry, redirectBlobs, fault.Permission},
		"a token from a private address":  {ref.Name(), onlyRegistry, elsewhere, fault.Permission},
	} {
		r.fault = c.fault
		ref, err := Parse(c.ref)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Fetch(t.Context(), ref, t.TempDir(), c.reach, unlimited, nil)
		if fault.KindOf(err) != c.kind || stolen.Load() > 0 {
			t.Errorf("%s: %v, %d requests to the private server", name, err, stolen.Load())
		}
		if hint := fault.HintOf(err); err != nil && hint != "pyro env pull "+ref.String() {
			t.Errorf("%s: %v, hint %q", name, err, hint)
		}
	}
}

func randomText(n int) string {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return string(b)
}

func TestFetchRefuses(t *testing.T) {
	r := newRegistry(t)
	small := gzipped(t, layer(t, "a=1"))
	manyEnv := make([]string, maxEnv+1)
	for i := range manyEnv {
		manyEnv[i] = fmt.Sprintf("A%d=", i)
	}
	for name, c := range map[string]struct {
		config v1.Config
		kind   fault.Kind
	}{
		"too many variables": {v1.Config{Env: manyEnv}, fault.Exhausted},
		"no pair":            {v1.Config{Env: []string{"PATH"}}, fault.Corrupt},
		"a zero byte":        {v1.Config{User: "ro\x00ot"}, fault.Corrupt},
		"an endless user":    {v1.Config{User: strings.Repeat("u", maxWord+1)}, fault.Exhausted},
		"too many words":     {v1.Config{Entrypoint: []string{"/bin/sh"}, Cmd: manyEnv}, fault.Exhausted},
		"a large command":    {v1.Config{Cmd: []string{strings.Repeat("c", maxEnvBytes+1)}}, fault.Exhausted},
		"a zero byte in it":  {v1.Config{Entrypoint: []string{"a\x00b"}}, fault.Corrupt},
	} {
		ref := r.push(t, "bad:1", c.config, small)
		if _, err := Fetch(t.Context(), ref, t.TempDir(), nil, unlimited, nil); fault.KindOf(err) != c.kind {
			t.Errorf("%s: kind %q, want %q: %v", name, fault.KindOf(err), c.kind, err)
		}
	}
	ref := r.push(t, "ok:1", v1.Config{}, small)
	missing, _ := Parse(r.host + "/ok:2")
	if _, err := Fetch(t.Context(), missing, t.TempDir(), nil, unlimited, nil); fault.KindOf(err) != fault.NotFound || fault.HintOf(err) == "" {
		t.Errorf("unknown tag: %v", err)
	}
	full := fault.Newf(fault.Exhausted, "no space")
	if _, err := Fetch(t.Context(), ref, t.TempDir(), nil, func(int64) error { return full }, nil); !errors.Is(err, full) {
		t.Errorf("no space: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fetch(ctx, ref, t.TempDir(), nil, unlimited, nil); fault.KindOf(err) != fault.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	for _, bad := range []string{"", "UPPER:1", "a b", "a@sha256:12", strings.Repeat("a", 600), "a:b:c"} {
		if _, err := Parse(bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
