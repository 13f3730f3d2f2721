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

// twoNames checks that a change through one name of a file is seen through the other name at once.
// A pause makes a machine forget the names.
func (s suite) twoNames(t *testing.T) {
	const asOther = "setpriv --reuid 7 --regid 8 --clear-groups "
	spec := s.spec(t, usual)
	spec.Storage = s.newStorage(t)
	g := s.stored(t, spec)
	for _, c := range []struct{ change, look, want string }{
		{"touch -d @7 one", "[ two -ot / ] && echo older", "older"},
		{"echo more >>one", "stat -c %s two", "17"},
		{"touch -d @7 one", "stat -c %Y two", "7"},
		{"chmod 741 one", "stat -c %a two", "741"},
		{"chown 7:8 one", "stat -c %u:%g two", "7:8"},
		{"chown -h 7:8 link", "stat -c %u:%g other-link", "7:8"},
		{"chmod 604 one", asOther + "cat two", "#!/bin/echo"},
		{"chmod 604 one", asOther + "test -r two && echo readable", "readable"},
		{"chmod 606 one", asOther + "touch two && echo touched", "touched"},
		{"chown 7 one", asOther + "chmod 640 two && stat -c %a two", "640"},
		{"chmod 705 one", asOther + "./two", "./two"},
		{
			`python3 -c "import os; os.setxattr('one', 'user.x', b'y')"; chmod 604 one`,
			asOther + `python3 -c "import os; print(os.getxattr('two', 'user.x', follow_symlinks=False))"`, "b'y'",
		},
	} {
		g.shell(t, "cd \"$PYRO_WORKSPACE\"; rm -f *; echo '#!/bin/echo' >one; chmod 600 one; ln one two; ln -s one link; ln link other-link; sync")
		if p, ok := g.Machine.(machine.Pauser); ok {
			if err := errors.Join(p.Pause(t.Context()), p.Resume(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if got := g.shell(t, "cd \"$PYRO_WORKSPACE\"; "+c.change+"; "+c.look); got != c.want {
			t.Errorf("%s; %s: got %q, want %q", c.change, c.look, got, c.want)
		}
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
