//go:build machine

package qemu

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/machine/record"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// shell runs a command line and returns its output. The test fails if the command fails.
func (s *started) shell(t *testing.T, line string) string {
	t.Helper()
	var out strings.Builder
	end, err := s.agent.Exec(t.Context(), program.Command{Argv: []string{"sh", "-c", line}, Cwd: "/"}, program.Attach{Stdout: &out, Stderr: &out})
	if err != nil || end.Code != 0 {
		t.Fatalf("%s: %+v, %v: %s", line, end, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// save saves a machine and returns the folder. Afterwards the machine is paused.
func (s *started) save(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := s.Machine.(machine.Saver).Save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestForkWithDisks saves a machine with persistent disks. The saved machine continues on new
// layers. Another machine resumes on other layers, and more machines resume after the saved one has
// ended. All of them must have the earlier changes, flushed or not. No machine may have the later
// changes of another machine.
func TestForkWithDisks(t *testing.T) {
	k := newDisks(t)
	k.start()
	const write = "echo before >before; echo before >/root/before; head -c 5000000 /dev/urandom >random; sync; sha256sum random >/root/sum; echo late >late"
	k.shell(write)
	dir := k.save(t)
	again := k.save(t) // the machine is still paused
	fork := func(driver *Driver, dir string) *disks {
		f := &disks{t: t, driver: driver, root: k.root, dir: t.TempDir()}
		f.storage.Root, f.storage.Volume = append(k.storage.Root[:1:1], f.layer()), append(k.storage.Volume[:2:2], f.layer())
		id := client.NewIdentity("").MachineID[:16]
		f.started = startWith(t, driver, machine.Spec{
			ID: "fork-" + id, Dir: t.TempDir(), Root: k.root, VCPUs: 1, MemMiB: 256, Storage: &machine.Storage{Block: &f.storage}, Saved: dir,
		})
		return f
	}
	root, volume := k.layer(), k.layer()
	if err := k.Machine.(machine.Layerer).AddLayers(t.Context(), root, volume); err != nil {
		t.Fatal(err)
	}
	if err := k.Machine.(machine.Pauser).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(who string, k *disks) {
		t.Helper()
		if got := k.shell("cat before late /root/before; sha256sum -c /root/sum; ls mine-* /root/mine-* 2>/dev/null; :"); got != "before\nlate\nbefore\nrandom: OK" {
			t.Errorf("%s has %q", who, got)
		}
		k.shell("echo " + who + " >mine-" + who + "; echo " + who + " >/root/mine-" + who + "; sync")
	}
	check("the-source", k)
	check("a-fork", fork(k.driver, dir))
	k.end()
	if got, err := k.on(2, "before"); err != nil || got != "before\n" {
		t.Errorf("the layers that were saved have %q, %v", got, err)
	}

	// The test removes the template, and another start makes it again.
	if err := k.driver.Invalidate(t.Context(), machine.Spec{Root: k.root, VCPUs: 1, MemMiB: 256}); err != nil {
		t.Fatal(err)
	}
	check("a-late-fork", fork(driverIn(t, machine.TCG, machinetest.SharedDirs(t)), again))
	startSmall(t, k.driver, k.root).works(t)
	check("a-later-fork", fork(k.driver, dir))
}

// TestStoppedMachineReceivesNothing sends data to a paused machine before and between saves. QEMU
// must not write this data to the memory, so all saves must contain the same memory.
func TestStoppedMachineReceivesNothing(t *testing.T) {
	d, root := driverIn(t, machine.TCG, machinetest.SharedDirs(t)), machinetest.Debian(t)
	s := startSmall(t, d, root)
	s.works(t)
	s.agent.Close()
	if err := s.Machine.(machine.Pauser).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	var records []description
	var dir string
	for range 3 {
		s.Link().SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		s.Link().Write(make([]byte, 100_000)) // the buffer is full before the third write
		dir = s.save(t)
		var r description
		if err := record.Read(dir, savedForm, &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	for i, r := range records {
		if !reflect.DeepEqual(r.Memory, records[0].Memory) {
			t.Errorf("save %d has another memory", i)
		}
	}
	s.Close()
	again := startWith(t, d, machine.Spec{ID: "again-" + client.NewIdentity("").MachineID[:8], Dir: t.TempDir(), Root: root, VCPUs: 1, MemMiB: 256, Saved: dir})
	again.works(t)
}

// TestFullDiskWhileSaving checks that the error of Save contains the reason, and that Save leaves
// no files. The machine continues to run and can be saved elsewhere.
func TestFullDiskWhileSaving(t *testing.T) {
	d, root := driverIn(t, machine.TCG, machinetest.SharedDirs(t)), machinetest.Debian(t)
	s := startSmall(t, d, root)
	s.shell(t, "head -c 30000000 /dev/urandom >/run/random; sha256sum /run/random >/run/sum")
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=400m"); errors.Is(err, unix.EPERM) {
		testenv.Lacks(t, "mounts of small disks: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	full := filepath.Join(small, "full")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	base, err := disk.Allocated(inherited(int(s.Machine.(*instance).origin.ram.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	// In the last case, nearly all of the machine's changed memory fits on the disk.
	for _, room := range []int64{0, base / 2, base + 1<<20, base + 20<<20} {
		if err := os.WriteFile(filepath.Join(small, "filler"), make([]byte, 400<<20-room), 0o600); err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		err := s.Machine.(machine.Saver).Save(t.Context(), full)
		if left, _ := os.ReadDir(full); err == nil || fault.KindOf(err) != fault.Exhausted || len(left) > 0 {
			t.Errorf("with %d bytes: got error %v, leftovers: %v", room, err, left)
			if err == nil {
				t.FailNow()
			}
		}
		if got := s.shell(t, "sha256sum -c /run/sum"); got != "/run/random: OK" {
			t.Error(got)
		}
	}
	dir := s.save(t)
	s.Close()
	again := startWith(t, d, machine.Spec{ID: "again-" + client.NewIdentity("").MachineID[:8], Dir: t.TempDir(), Root: root, VCPUs: 1, MemMiB: 256, Saved: dir})
	if got := again.shell(t, "sha256sum -c /run/sum"); got != "/run/random: OK" {
		t.Error(got)
	}
}

// churn is a script that starts a program in the background. The program allocates and frees
// memory, and stops if its data has changed.
const churn = `cat >/run/churn.py <<'end'
import hashlib, os, random
held, rounds = {}, 0
while True:
    k = random.randrange(20)
    if k in held:
        content, sum = held.pop(k)
        assert hashlib.md5(content).digest() == sum, "memory"
        assert hashlib.md5(open(f"/run/churn-{k}", "rb").read()).digest() == sum, "file"
        os.unlink(f"/run/churn-{k}")
    else:
        content = os.urandom(4096) * random.randrange(1, 200)
        open(f"/run/churn-{k}", "wb").write(content)
        held[k] = content, hashlib.md5(content).digest()
    rounds += 1
    print(rounds, file=open("/run/rounds", "w"))
end
: >/run/rounds
(setsid python3 /run/churn.py >/run/churn.log 2>&1 &)
until [ -s /run/rounds ]; do sleep 0.1; done`

// TestFreeMemoryIsOmitted checks that saved files contain all pages except free pages and zero
// pages. A program allocates and frees memory during the saves. The second round saves a resumed
// machine.
func TestFreeMemoryIsOmitted(t *testing.T) {
	d, root := driverIn(t, machine.TCG, machinetest.SharedDirs(t)), machinetest.Debian(t)
	s := startSmall(t, d, root)
	s.shell(t, "head -c 10000000 /dev/urandom >/run/kept; sha256sum /run/kept >/run/sum; "+churn)
	for round := range 2 {
		s.shell(t, "head -c 50000000 /dev/urandom >/run/random; rm /run/random; head -c 10000000 /dev/zero >/run/zero")
		dir := s.save(t)
		if info, err := os.Stat(filepath.Join(dir, savedMemory)); err != nil || info.Size() < 10_000_000 || info.Size() > 50_000_000 {
			t.Errorf("round %d: %d bytes, %v", round, info.Size(), err)
		}
		s.Close()
		s = startWith(t, d, machine.Spec{ID: "again-" + client.NewIdentity("").MachineID[:8], Dir: t.TempDir(), Root: root, VCPUs: 1, MemMiB: 256, Saved: dir})
		if got := s.shell(t, "sha256sum -c /run/sum; head -c 10000000 /dev/zero | cmp - /run/zero; cat /run/churn.log"); got != "/run/kept: OK" {
			t.Errorf("round %d: %s", round, got)
		}
		s.shell(t, `was=$(cat /run/rounds); for i in $(seq 300); do [ "$was" = "$(cat /run/rounds)" ] || exit 0; sleep 0.1; done; exit 1`)
	}
}

// TestMachineDiesDuringSave kills QEMU while the machine is being saved.
func TestMachineDiesDuringSave(t *testing.T) {
	d, root := driverIn(t, machine.TCG, machinetest.SharedDirs(t)), machinetest.Debian(t)
	machinetest.KilledWhileSaved(t, savedMemory, func() machine.Machine {
		s := startSmall(t, d, root)
		s.shell(t, "head -c 60000000 /dev/urandom >/run/random")
		return s.Machine
	}, func(dir string) {
		again := startWith(t, d, machine.Spec{ID: "again-" + client.NewIdentity("").MachineID[:8], Dir: t.TempDir(), Root: root, VCPUs: 1, MemMiB: 256, Saved: dir})
		again.shell(t, "test -s /run/random")
	})
}
