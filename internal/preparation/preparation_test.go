package preparation

import (
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// fakeDriver is ready for a digest after a start has created an image for this digest.
type fakeDriver struct {
	machine.Driver
	isolation machine.Isolation
	broken    error
	parts     map[string]string
	made      map[string]bool
	damaged   bool
}

func (d *fakeDriver) Isolation() machine.Isolation { return d.isolation }

func (d *fakeDriver) Ready(_ context.Context, spec machine.Spec) (machine.Readiness, error) {
	r := machine.Readiness{Parts: maps.Clone(d.parts), Damaged: d.damaged}
	r.Parts[machine.PartEnvironment] = spec.Root.Digest
	if key := d.key(spec); !d.made[key] || d.damaged {
		r.Missing = "there is no image"
	}
	return r, d.broken
}

func (d *fakeDriver) Invalidate(_ context.Context, spec machine.Spec) error {
	delete(d.made, d.key(spec))
	return nil
}

// key returns the parts that the driver's image depends on, as one string.
func (d *fakeDriver) key(spec machine.Spec) string {
	key := spec.Root.Digest + d.parts["the agent"]
	if spec.Network != nil {
		key += " with a network"
	}
	return key
}

// serve serves an image with random content from a registry in this process. The function change
// replaces the image with another image of the same name.
func serve(t *testing.T) (reference string, change func()) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(func() {
		remote.DefaultTransport.(*http.Transport).CloseIdleConnections()
		server.Close()
	})
	reference = strings.TrimPrefix(server.URL, "http://") + "/tool:1"
	change = func() {
		t.Helper()
		layer, err := random.Layer(1000, "application/vnd.oci.image.layer.v1.tar")
		if err != nil {
			t.Fatal(err)
		}
		image, err := mutate.AppendLayers(empty.Image, layer)
		if err != nil {
			t.Fatal(err)
		}
		file, _ := image.ConfigFile()
		file = file.DeepCopy()
		file.OS, file.Architecture = "linux", runtime.GOARCH
		if image, err = mutate.ConfigFile(image, file); err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(reference)
		if err == nil {
			err = remote.Write(ref, image)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change()
	return reference, change
}

// host is a host with one driver that works and one driver that does not.
type host struct {
	t      *testing.T
	cfg    Config
	driver *fakeDriver
}

func newHost(t *testing.T) *host {
	d := dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()}
	broken := &fakeDriver{isolation: machine.KVM, broken: errors.New("no /dev/kvm"), parts: map[string]string{}}
	works := &fakeDriver{isolation: machine.GVisor, parts: map[string]string{"the agent": "1", "the host's kernel": "1"}, made: map[string]bool{}}
	drivers := &isolation.Drivers{Known: []machine.Driver{broken, works}, Auto: []machine.Isolation{machine.KVM, machine.GVisor}}
	return &host{t, Config{Dirs: d, Store: environment.Open(d), Drivers: drivers}, works}
}

func (h *host) look(m Machine, want Status, why string) State {
	h.t.Helper()
	s, err := Check(h.t.Context(), h.cfg, m)
	if err != nil {
		h.t.Fatal(err)
	}
	if s.Status != want || s.Isolation != machine.GVisor || !strings.Contains(s.Reason, why) || (s.Reason == "") != (s.Status == Warm) {
		h.t.Errorf("%+v, not %s for %q", s, want, why)
	}
	return s
}

// make creates the same files as a start.
func (h *host) make(m Machine) {
	h.t.Helper()
	ref, err := h.cfg.Store.Use(h.t.Context(), m.Environment, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	defer ref.Close()
	h.driver.made[h.driver.key(m.spec(machine.Root{Digest: ref.Digest}))], h.driver.damaged = true, false
}

// prepare creates the files that the start of a machine creates, and writes the note.
func (h *host) prepare(m Machine) {
	h.t.Helper()
	h.make(m)
	if err := Remember(h.cfg.Dirs, h.look(m, Warm, "")); err != nil {
		h.t.Fatal(err)
	}
}

func TestWarmColdStale(t *testing.T) {
	h := newHost(t)
	reference, change := serve(t)
	m := Machine{Environment: reference, Isolation: machine.Auto, VCPUs: 1, MemMiB: 1024}
	networked := m
	networked.Network = true
	h.look(m, Cold, "not installed")
	h.prepare(m)
	h.look(networked, Cold, "there is no image")

	// The agent changes.
	h.driver.parts["the agent"] = "2"
	h.look(m, Stale, "there is no image, for the agent has changed since it was prepared on 20")
	h.look(networked, Cold, "there is no image")
	h.driver.parts["the host's kernel"] = "2"
	h.look(m, Stale, "for the agent and the host's kernel have changed")
	h.prepare(m)

	// After Forget, without other changes, the machine is cold.
	if err := Forget(t.Context(), h.cfg, m); err != nil {
		t.Fatal(err)
	}
	h.look(m, Cold, "there is no image")
	h.prepare(m)

	h.driver.damaged = true
	h.look(m, Stale, "there is no image")
	h.prepare(m)

	// If a start has created the files again, the machine is warm, regardless of the note.
	h.driver.parts["the agent"] = "3"
	h.make(m)
	h.look(m, Warm, "")

	// The name refers to another image.
	change()
	if _, err := h.cfg.Store.Pull(t.Context(), reference, true, nil); err != nil {
		t.Fatal(err)
	}
	h.look(m, Stale, machine.PartEnvironment)
	h.prepare(m)

	// The image itself is damaged.
	images, _ := filepath.Glob(filepath.Join(h.cfg.Dirs.Environments(), "content", "*", "rootfs.ext4"))
	for _, image := range images {
		os.Chmod(image, 0o600)
		if err := os.Truncate(image, 4096); err != nil {
			t.Fatal(err)
		}
	}
	h.look(m, Stale, "")
}

func TestCheckErrors(t *testing.T) {
	h := newHost(t)
	if _, err := Check(t.Context(), h.cfg, Machine{Environment: "debain:12", Isolation: machine.Auto}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("invalid name: got %v", err)
	}
	_, err := Check(t.Context(), h.cfg, Machine{Environment: "debian:12", Isolation: machine.KVM})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "kvm: no /dev/kvm") || fault.HintOf(err) == "" {
		t.Errorf("unavailable isolation: got %v", err)
	}
	if left, _ := os.ReadDir(h.cfg.Dirs.Cache); len(left) > 0 {
		t.Errorf("a look-up created %v", left)
	}
}

func TestInvalidNotes(t *testing.T) {
	h := newHost(t)
	reference, _ := serve(t)
	m := Machine{Environment: reference, Isolation: machine.GVisor}
	h.prepare(m)
	h.driver.parts["the agent"] = "2"
	s := h.look(m, Stale, "the agent")
	for _, text := range []string{"", "{", `{"parts": 7}`, `{"environment": "other", "parts": {"the agent": "1"}}`} {
		if err := os.WriteFile(path(h.cfg.Dirs, s), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h.look(m, Cold, "there is no image")
	}
	h.driver.parts["the agent"] = "1"
	h.prepare(m)
	for _, keep := range []bool{true, false} {
		if err := Prune(h.cfg.Dirs, func(digest string) bool { return keep && digest == s.Digest }); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path(h.cfg.Dirs, s)); (err == nil) != keep {
			t.Errorf("keep: %t, and %v", keep, err)
		}
	}
}
