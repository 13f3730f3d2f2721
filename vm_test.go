package pyro

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
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func (p *Pyro) createVM(t *testing.T, ttl int) string {
	t.Helper()
	vm, err := p.CreateVM(t.Context(), CreateVMRequest{Environment: "debian:12", AllowHostCompat: true, TTLSeconds: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return vm.VMID
}

func TestMachineIsRemovedAfterCommand(t *testing.T) {
	p := withWorkspaces(t)
	id := p.createVM(t, 0)
	now, err := p.StatusVM(t.Context(), id)
	if err != nil || now.State != StateCreated || now.ExecutionMode != HostCompat || now.HostCompatReason == "" || now.TTLSeconds != DefaultTTLSeconds ||
		now.ExpiresAt == nil || now.NetworkEnabled {
		t.Fatalf("%+v, %v", now, err)
	}
	for range 2 { // the second start does nothing
		if now, err = p.StartVM(t.Context(), id); err != nil || now.State != StateStarted {
			t.Fatalf("%+v, %v", now, err)
		}
	}
	if n, err := p.NetworkInfoVM(t.Context(), id); err != nil || n.VMID != id || n.NetworkEnabled || n.NetworkPolicy != NetworkOff || n.Network != nil {
		t.Errorf("%+v, %v", n, err)
	}
	r, err := p.ExecVM(t.Context(), ExecVMRequest{VMID: id, Command: `echo "$A"; exit 3`, Env: map[string]string{"A": "b"}})
	if err != nil || r.VMID != id || r.WorkspaceID != "" || r.Stdout != "b\n" || r.ExitCode != 3 || r.Isolation != IsolationNone {
		t.Errorf("%+v, %v", r, err)
	}
	if now, err := p.StatusVM(t.Context(), id); KindOf(err) != NotFound {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestInvalidCommandKeepsMachine(t *testing.T) {
	p := withWorkspaces(t)
	id := p.createVM(t, 0)
	if _, err := p.StartVM(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ExecVM(t.Context(), ExecVMRequest{VMID: id}); KindOf(err) != Invalid {
		t.Errorf("%v", err)
	}
	if now, err := p.StopVM(t.Context(), id); err != nil || now.State != StateStopped || now.StateReason == "" || now.ExpiresAt == nil {
		t.Errorf("%+v, %v", now, err)
	}
	if _, err := p.ExecVM(t.Context(), ExecVMRequest{VMID: id, Argv: []string{"true"}}); KindOf(err) != Precondition {
		t.Errorf("%v", err)
	}
	if now, err := p.StartVM(t.Context(), id); err != nil || now.State != StateStarted {
		t.Errorf("%+v, %v", now, err)
	}
	if r, err := p.ExecVM(t.Context(), ExecVMRequest{VMID: id, Command: "sleep 60", TimeoutSeconds: 1}); err != nil || !r.TimedOut || r.ExitCode != 124 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := p.DeleteVM(t.Context(), id); KindOf(err) != NotFound {
		t.Errorf("it still exists after its command: %v", err)
	}
}

func TestReapDeletesOnlyExpired(t *testing.T) {
	p := withWorkspaces(t)
	over := []string{p.createVM(t, 1), p.createVM(t, 1)}
	started, later, w := p.createVM(t, 1), p.createVM(t, 600), p.create(t, func(r *CreateWorkspaceRequest) { r.TTLSeconds = 1 })
	if _, err := p.StartVM(t.Context(), started); err != nil {
		t.Fatal(err)
	}
	var deleted []string
	// The supervisor of a running machine deletes it, or stops it for ReapExpired.
	testenv.Eventually(t, "the started machine is deleted", func() bool {
		reaped, err := p.ReapExpired(t.Context())
		if err != nil || reaped.Count != len(reaped.DeletedVMIDs) {
			t.Fatalf("%+v, %v", reaped, err)
		}
		deleted = append(deleted, reaped.DeletedVMIDs...)
		_, err = p.StatusVM(t.Context(), started)
		return KindOf(err) == NotFound
	})
	for _, id := range over {
		if _, err := p.StatusVM(t.Context(), id); KindOf(err) != NotFound || !slices.Contains(deleted, id) {
			t.Errorf("%s still exists: %v, %q", id, err, deleted)
		}
	}
	if now, err := p.StatusVM(t.Context(), later); err != nil || now.State != StateCreated {
		t.Errorf("VM that has not expired: got %+v, %v", now, err)
	}
	testenv.Eventually(t, "the workspace has stopped, with its time to live as the reason", func() bool {
		now, err := p.StatusWorkspace(t.Context(), w)
		if err != nil || now.State == StateStopped && now.ExpiresAt != nil {
			t.Fatalf("%+v, %v", now, err)
		}
		return now.State == StateStopped && strings.Contains(now.StateReason, "1 s")
	})
	if reaped, err := p.ReapExpired(t.Context()); err != nil || reaped.Count != 0 || reaped.DeletedVMIDs == nil {
		t.Errorf("%+v, %v", reaped, err)
	}
}

func TestPruneKeepsUsedImages(t *testing.T) {
	p := withWorkspaces(t)
	ctx := t.Context()
	env, err := p.PullEnvironment(ctx, PullEnvironmentRequest{Environment: serveSmallImage(t)})
	if err != nil {
		t.Fatal(err)
	}
	installed := func() bool {
		now, err := p.InspectEnvironment(ctx, env.Name)
		if err != nil && KindOf(err) != NotFound {
			t.Fatal(err)
		}
		return err == nil && now.Installed
	}
	for _, kind := range []store.Kind{store.KindWorkspace, store.KindVM} {
		id := map[store.Kind]string{store.KindWorkspace: "ws-0123456789ab", store.KindVM: "vm-0123456789ab"}[kind]
		w := store.Workspace{ID: id, Kind: kind, Spec: store.Spec{Environment: env.Name, Digest: env.Digest, Isolation: "kvm"}, Starts: 1, CreatedAt: time.Now()}
		if err := p.workspaces.Store.AddWorkspace(ctx, w); err != nil {
			t.Fatal(err)
		}
		plan, err := p.PruneEnvironments(ctx, PruneEnvironmentsRequest{All: true, DryRun: true})
		if err != nil || !plan.DryRun || len(plan.Removed) > 0 || len(plan.Kept) != 1 || plan.Kept[0].Name != env.Name || plan.Kept[0].Reason != "a workspace uses it" {
			t.Errorf("dry run with a %s: %+v, %v", kind, plan, err)
		}
		for _, all := range []bool{false, true} {
			if r, err := p.PruneEnvironments(ctx, PruneEnvironmentsRequest{All: all}); err != nil || len(r.Removed) > 0 || !installed() {
				t.Errorf("with a %s, all %v: %+v, %v, installed %v", kind, all, r, err, installed())
			}
		}
		if err := p.workspaces.Delete(ctx, kind, id); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := p.PruneEnvironments(ctx, PruneEnvironmentsRequest{All: true, DryRun: true}); err != nil || len(r.Removed) != 1 || r.FreedBytes == 0 || !installed() {
		t.Errorf("dry run without: %+v, %v, installed %v", r, err, installed())
	}
	r, err := p.PruneEnvironments(ctx, PruneEnvironmentsRequest{All: true})
	if err != nil || len(r.Removed) != 1 || r.Removed[0].Kind != "environment" || r.Removed[0].Name != env.Name || installed() {
		t.Errorf("without: %+v, %v, installed %v", r, err, installed())
	}
}

// serveSmallImage serves an image with one file from a registry in this process.
func serveSmallImage(t *testing.T) (reference string) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "file", Size: 4, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "text")
	w.Close()
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(b.Bytes(), types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	config, _ := image.ConfigFile()
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(func() {
		remote.DefaultTransport.(*http.Transport).CloseIdleConnections() // close the connections that pushed the image
		server.Close()
	})
	reference = strings.TrimPrefix(server.URL, "http://") + "/small:1"
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	return reference
}
