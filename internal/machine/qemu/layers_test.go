//go:build machine

package qemu

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/disk/qcow2"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/program"
)

// disks is a machine with storage, together with the files of its disks.
type disks struct {
	*started
	t       *testing.T
	driver  *Driver
	root    machine.Root
	dir     string
	storage machine.BlockStorage
	layers  int
}

// newDisks creates the storage for a machine. The volume is empty.
func newDisks(t *testing.T) *disks {
	t.Helper()
	k := &disks{t: t, driver: driverIn(t, machine.TCG, machinetest.SharedDirs(t)), root: machinetest.Debian(t), dir: t.TempDir()}
	volume := filepath.Join(k.dir, "volume.ext4")
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	if err := ext4image.BuildVolume(t.Context(), &empty, volume, ext4image.Limits{}, ext4image.VirtualSize); err != nil {
		t.Fatal(err)
	}
	k.storage = machine.BlockStorage{Root: []string{filepath.Join(k.dir, "root.qcow2")}, Volume: []string{volume, k.layer()}}
	return k
}

// layer creates an empty layer and returns its path.
func (k *disks) layer() string {
	k.t.Helper()
	k.layers++
	path := filepath.Join(k.dir, fmt.Sprintf("layer-%d.qcow2", k.layers))
	f, err := os.Create(path)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := errors.Join(qcow2.Create(f, diskSize), f.Close()); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// start starts a machine with the storage and mounts its root and volume.
func (k *disks) start() {
	k.t.Helper()
	id := client.NewIdentity("").MachineID[:16]
	spec := machine.Spec{ID: "kept-" + id, Dir: k.t.TempDir(), Root: k.root, VCPUs: 1, MemMiB: 256, Storage: &machine.Storage{Block: &k.storage}}
	k.started = startWith(k.t, k.driver, spec)
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	if _, err := k.agent.Mount(ctx, client.Mounts{Root: true, Volume: true}); err != nil {
		k.t.Fatal(err)
	}
}

// end quiesces the machine's disks and closes the machine.
func (k *disks) end() {
	k.t.Helper()
	if err := errors.Join(k.agent.Quiesce(k.t.Context()), k.agent.Close(), k.Close()); err != nil {
		k.t.Fatal(err)
	}
}

// shell runs a command line and returns its output. The test fails if the command fails.
func (k *disks) shell(line string) string {
	k.t.Helper()
	var out bytes.Buffer
	end, err := k.agent.Exec(k.t.Context(), program.Command{Argv: []string{"sh", "-c", line}, Cwd: "/workspace"}, program.Attach{Stdout: &out, Stderr: &out})
	if err != nil || end.Code != 0 {
		k.t.Fatalf("%s: %+v, %v: %s", line, end, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// add freezes the file systems and adds a layer to each disk.
func (k *disks) add() {
	k.t.Helper()
	ctx := k.t.Context()
	root, volume := k.layer(), k.layer()
	if frozen, err := k.agent.Freeze(ctx, client.Mounts{Root: true, Volume: true}, patience/4); err != nil || !frozen {
		k.t.Fatal(frozen, err)
	}
	if err := k.Machine.(machine.Layerer).AddLayers(ctx, root, volume); err != nil {
		k.t.Fatal(err)
	}
	if held, err := k.agent.Thaw(ctx); err != nil || !held {
		k.t.Fatal(held, err)
	}
	k.storage.Root, k.storage.Volume = append(k.storage.Root, root), append(k.storage.Volume, volume)
}

// on returns the content of a file in the volume. It reads the volume from its lowest layers only,
// and the parameter layers is their number.
func (k *disks) on(layers int, name string) (string, error) {
	k.t.Helper()
	disk, err := qcow2.OpenFiles(k.storage.Volume[0], k.storage.Volume[1:layers]...)
	if err != nil {
		k.t.Fatal(err)
	}
	defer disk.Close()
	tree, err := ext4.Open(disk, disk.Size())
	if err != nil {
		k.t.Fatal(err)
	}
	f, err := tree.Open("files/" + name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	return b.String(), err
}

// TestLayers adds layers to a running machine and merges them. It checks that the lower layers do
// not change and that no data is lost.
func TestLayers(t *testing.T) {
	t.Parallel()
	k := newDisks(t)
	k.start()
	const layers = 4
	for i := range layers {
		k.shell(fmt.Sprintf("echo %d >now; echo %d >of-%d; echo %d >>/root/all; head -c 2000000 /dev/urandom >random-%d; sha256sum random-* >sums", i, i, i, i, i))
		k.add()
	}
	k.shell("rm of-0; echo end >now")
	// Each layer has the state at the time of its freeze, although it was never unmounted.
	for i := range layers {
		if got, err := k.on(2+i, "now"); got != fmt.Sprintln(i) || err != nil {
			t.Errorf("layer %d has %q, %v", i, got, err)
		}
	}
	ctx := t.Context()
	m := k.Machine.(machine.Merger)
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		cancelled, cancel := context.WithTimeout(ctx, after)
		err := m.Merge(cancelled, machine.VolumeDisk, 3)
		cancel()
		if err == nil {
			t.Logf("merged within %s", after)
			break
		}
	}
	if err := errors.Join(m.Merge(ctx, machine.VolumeDisk, 3), m.Merge(ctx, machine.RootDisk, 1), m.Merge(ctx, machine.RootDisk, 1)); err != nil {
		t.Fatal(err)
	}
	drop := func(all []string, keep int) []string {
		for _, path := range all[keep : len(all)-1] {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		return append(all[:keep:keep], all[len(all)-1])
	}
	k.storage.Volume, k.storage.Root = drop(k.storage.Volume, 3), drop(k.storage.Root, 1)
	check := func() {
		t.Helper()
		if got := k.shell("sha256sum -c --quiet sums && cat now of-3 && ls of-* | wc -l && cat /root/all"); got != "end\n3\n3\n0\n1\n2\n3" {
			t.Errorf("it has %q", got)
		}
	}
	check()
	k.add() // a disk can get new layers after a merge
	k.shell("echo after >>/root/after")
	k.end()
	if got, err := k.on(3, "now"); got != "1\n" || err != nil {
		t.Errorf("kept layer: got %q, %v", got, err)
	}
	k.start()
	check()
	k.end()
}

// TestKilledMachineKeepsFlushedData kills machines while they write. It checks that flushed data
// survives and that the next machine can use the disks immediately.
func TestKilledMachineKeepsFlushedData(t *testing.T) {
	t.Parallel()
	k := newDisks(t)
	for i := range 3 {
		k.start()
		if i > 0 {
			if got := k.shell(fmt.Sprintf("cat flushed-%d; cat /root/flushed-%d", i-1, i-1)); got != "yes\nyes" {
				t.Errorf("after kill %d: %q", i, got)
			}
		}
		k.shell(fmt.Sprintf("echo yes >flushed-%d; echo yes >/root/flushed-%d; sync; (while :; do head -c 100000 /dev/urandom >w$((n=n+1)); cp w$n /root/; done) >/dev/null 2>&1 &", i, i))
		k.shell("sleep 0.5")
		if err := syscall.Kill(k.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-k.Done()
		k.agent.Close()
	}
}

// TestMergedDataSurvivesKill kills a machine after a merge. It checks that flushed data survives.
func TestMergedDataSurvivesKill(t *testing.T) {
	t.Parallel()
	k := newDisks(t)
	k.start()
	k.shell("head -c 3000000 /dev/urandom >random; sha256sum random >sums; cp random /root/random; sync")
	for range 2 {
		k.add()
	}
	sums := k.shell("cat sums")
	m := k.Machine.(machine.Merger)
	if err := errors.Join(m.Merge(t.Context(), machine.VolumeDisk, 1), m.Merge(t.Context(), machine.RootDisk, 0)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.Close(), k.agent.Close()); err != nil { // Close kills the machine
		t.Fatal(err)
	}
	k.storage.Volume, k.storage.Root = append(k.storage.Volume[:1:1], k.storage.Volume[len(k.storage.Volume)-1]), k.storage.Root[len(k.storage.Root)-1:]
	k.start()
	if got := k.shell("sha256sum random; cd /root; sha256sum random"); got != sums+"\n"+sums {
		t.Errorf("%s, and then\n%s", sums, got)
	}
	k.end()
}
