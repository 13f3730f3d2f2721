package machinetest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/disk/qcow2"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// interfaces checks that a machine's interfaces match the features of the driver, and logs them. It
// returns whether the machine is a Saver.
func (s suite) interfaces(t *testing.T) (saves bool) {
	m := s.start(t, usual).Machine
	_, pauses := m.(machine.Pauser)
	_, saves = m.(machine.Saver)
	_, thaws := m.(machine.Thawer)
	_, layers := m.(machine.Layerer)
	_, merges := m.(machine.Merger)
	_, savesRoot := m.(machine.RootSaver)
	_, lists := m.(machine.Processes)
	t.Logf("Pauser %t, Saver %t, Thawer %t, Layerer %t, Merger %t, RootSaver %t, Processes %t", pauses, saves, thaws, layers, merges, savesRoot, lists)
	blocks := s.driver.Features().BlockDisks
	if (layers || merges) && !blocks {
		t.Error("its machines are Layerers or Mergers, and BlockDisks is false")
	}
	if savesRoot && blocks {
		t.Error("its machines are RootSavers, and BlockDisks is true")
	}
	if thaws && !saves {
		t.Error("its machines are Thawers and no Savers")
	}
	if p, ok := m.(machine.Processes); ok && !slices.Contains(p.PIDs(), m.PID()) {
		t.Errorf("PIDs %v do not have PID %d", p.PIDs(), m.PID())
	}
	return saves
}

// storage checks that a volume outlives its machine. The kind of storage depends on BlockDisks.
func (s suite) storage(t *testing.T) {
	spec := s.spec(t, other)
	spec.Storage = s.newStorage(t)
	first := s.stored(t, spec)
	first.shell(t, "cd \"$PYRO_WORKSPACE\"; echo kept >file; mkdir folder; ln -s ../file folder/link; sync")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(first.agent.Quiesce(ctx), first.agent.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	spec.ID, spec.Dir = spec.ID+"-2", t.TempDir()
	second := s.stored(t, spec)
	if got := second.shell(t, "cd \"$PYRO_WORKSPACE\"; cat file folder/link; echo changed >file"); got != "kept\nkept" {
		t.Errorf("second machine: got %q", got)
	}
	var b bytes.Buffer
	if _, err := second.agent.ReadFile(ctx, "/workspace/file", 0, 0, &b); err != nil || strings.TrimSpace(b.String()) != "changed" {
		t.Errorf("the agent reads %q, %v", b.String(), err)
	}
}

// stored starts a machine with storage and mounts its root and volume.
func (s suite) stored(t *testing.T, spec machine.Spec) *guest {
	t.Helper()
	g := s.startAs(t, spec)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := g.agent.Renew(ctx, client.NewIdentity(spec.ID))
	if err == nil {
		_, err = g.agent.Mount(ctx, client.Mounts{Root: true, Volume: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// newStorage creates an empty volume.
func (s suite) newStorage(t *testing.T) *machine.Storage {
	t.Helper()
	dir := t.TempDir()
	if !s.driver.Features().BlockDisks {
		return &machine.Storage{Tree: &machine.TreeStorage{Folder: dir}}
	}
	var empty bytes.Buffer
	volume, layer := filepath.Join(dir, "volume.ext4"), filepath.Join(dir, "layer.qcow2")
	err := tar.NewWriter(&empty).Close()
	if err == nil {
		err = ext4image.BuildVolume(t.Context(), &empty, volume, ext4image.Limits{}, ext4image.VirtualSize)
	}
	var f *os.File
	if err == nil {
		f, err = os.Create(layer)
	}
	if err == nil {
		err = errors.Join(qcow2.Create(f, ext4image.VirtualSize), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return &machine.Storage{Block: &machine.BlockStorage{Root: []string{filepath.Join(dir, "root.qcow2")}, Volume: []string{volume, layer}}}
}
