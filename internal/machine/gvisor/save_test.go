//go:build machine

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	pyronet "github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// save saves a machine and returns the folder. Afterwards the machine is paused.
func (s *started) save(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := s.Machine.(machine.Saver).Save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// until waits until a command line succeeds.
func (s *started) until(t *testing.T, line string) {
	t.Helper()
	s.shell(t, "until "+line+"; do sleep 0.01; done")
}

// writer is a program that waits for lines on a FIFO. For each line it appends the line and the
// content of a removed file to a log file. All three are open all the time. If the program opened
// the FIFO for each line, a line could be lost. Saving a machine interrupts a call of open, and
// gVisor then loses the data that another program has written to the FIFO.
const writer = `python3 -c '
import os
log = open("log", "a", 1)
gone = open("gone", "w+"); gone.write("nobody finds this"); gone.flush(); os.unlink("gone")
go = os.fdopen(os.open("/run/go", os.O_RDWR))
print(1, file=log)
while True:
    line = go.readline().strip()
    gone.seek(0)
    print(line, gone.read(), file=log)' >/dev/null 2>&1 &`

// TestForkWithVolume saves a machine with storage and resumes another one on a copy of the volume.
// Each machine must have all earlier changes to volume and root, and no later changes of the other
// machine. SaveRoot must work on a machine that was resumed twice.
func TestForkWithVolume(t *testing.T) {
	d, root, folder := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t), t.TempDir()
	source := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder})
	source.shell(t, "mkfifo /run/go; echo before >/root/before; rm /etc/debian_version; cd "+workspace+" && "+writer)
	source.until(t, "test -s "+workspace+"/log")
	fork := func(of *stored) *stored {
		t.Helper()
		dir, copied := of.save(t), t.TempDir()
		if out, err := exec.Command("cp", "-a", of.sandbox().storage.Folder+"/.", copied).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := of.sandbox().Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		spec := specOf(t, root)
		spec.Saved, spec.Storage = dir, &machine.Storage{Tree: &machine.TreeStorage{Folder: copied, Root: filepath.Join(dir, "the root is in what was saved")}}
		return &stored{start(t, d, spec), filepath.Join(copied, "files")}
	}
	check := func(s *stored, who string, log ...string) {
		t.Helper()
		s.shell(t, "echo "+who+" >/run/go; echo "+who+" >/root/"+who)
		log = append(log, who+" nobody finds this")
		want := "1\n" + strings.Join(log, "\n")
		s.until(t, fmt.Sprintf("test $(wc -l <%s/log) = %d", workspace, len(log)+1))
		if got := s.shell(t, "cat "+workspace+"/log"); got != want {
			t.Errorf("%s reads %q", who, got)
		}
		if b, err := os.ReadFile(s.host("log")); err != nil || string(b) != want+"\n" {
			t.Errorf("of %s the host has %q, %v", who, b, err)
		}
		if got := s.shell(t, "cat /root/before; test -e /etc/debian_version || echo gone"); got != "before\ngone" {
			t.Errorf("the root of %s has %q", who, got)
		}
	}
	one := fork(source)
	check(source, "source")
	check(one, "one")
	two := fork(one)
	check(two, "two", "one nobody finds this")
	check(one, "again", "one nobody finds this")
	kept := filepath.Join(t.TempDir(), "root")
	if err := two.sandbox().SaveRoot(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	next := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: t.TempDir(), Root: kept})
	if got := next.shell(t, "cd /root; cat before one two; ls again source 2>/dev/null; test -e /etc/debian_version || echo gone"); got != "before\none\ntwo\ngone" {
		t.Errorf("the saved root has %q", got)
	}
}

// TestResumedMachineNeedsRenew checks that a resumed machine answers no requests before Renew.
// It also checks that the sentry has saved files open only for reading.
func TestResumedMachineNeedsRenew(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	s := start(t, d, specOf(t, root))
	s.shell(t, "head -c 50000000 /dev/urandom >/run/random; sha256sum /run/random >/run/sum; cat /proc/sys/kernel/random/boot_id >/run/boot")
	spec := specOf(t, root)
	spec.Saved = s.save(t)
	m, err := d.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c, err := client.Dial(t.Context(), m.Link())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Stat(t.Context(), "/run/sum"); fault.KindOf(err) != fault.Precondition {
		t.Errorf("it answers before it has been renewed: %v", err)
	}
	if err := c.Renew(t.Context(), client.NewIdentity(spec.ID)); err != nil {
		t.Fatal(err)
	}
	again := &started{m, c}
	if got := again.shell(t, "sha256sum -c /run/sum; cmp -s /run/boot /proc/sys/kernel/random/boot_id || echo another"); got != "/run/random: OK\nanother" {
		t.Error(got)
	}
	checkConfinement(t, m.PID(), 0)
	for _, file := range glob(t, fmt.Sprintf("/proc/%d/fd/*", m.PID())) {
		link, err := os.Readlink(file)
		if err != nil || isAllowedFile(link) {
			continue
		}
		flags, err := os.ReadFile(strings.Replace(file, "/fd/", "/fdinfo/", 1))
		if !strings.HasPrefix(link, spec.Saved+"/") || err == nil && !strings.Contains(string(flags), "flags:\t0100000\n") {
			t.Errorf("it has %s open, with %s, %v", link, flags, err)
		}
	}
}

// TestConnectionsOfSavedMachine checks that connections inside the machine survive. Other
// connections are reset. The machine can make new connections on its new link.
func TestConnectionsOfSavedMachine(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	policy, err := egress.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	world, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer world.Close()
	go func() {
		for {
			c, err := world.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			io.WriteString(c, "hello")
		}
	}()
	linked := func(spec machine.Spec) *started {
		t.Helper()
		plan := pyronet.NewPlan(spec.ID)
		near, far, err := machine.NewLink()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		stack, err := pyronet.Start(pyronet.Config{
			Link: near, Plan: plan, Policy: policy,
			Dial: func(ctx context.Context, _ string, _ netip.AddrPort) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", world.Addr().String())
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stack.Close() })
		spec.Network = &machine.Network{
			Link: far, MAC: plan.MAC, GatewayMAC: plan.GatewayMAC, Address: plan.Address, Gateway: plan.Gateway, Address6: plan.Address6, Gateway6: plan.Gateway6, MTU: pyronet.MTU,
		}
		return start(t, d, spec)
	}
	s := linked(specOf(t, root))
	s.shell(t, `mkfifo /run/go; python3 -c '
import socket
server = socket.create_server(("127.0.0.1", 0))
inner = socket.create_connection(server.getsockname()); outer = server.accept()[0]
away = socket.create_connection(("1.2.3.4", 80)); away.recv(5)
open("/run/ready", "w").close()
open("/run/go").read()
inner.sendall(b"within"); print(outer.recv(6))
try:
    print("not cut:", away.recv(5) and "read" or "ended")
except OSError as e:
    print("cut")
print(socket.create_connection(("1.2.3.4", 80)).recv(5))
' >/run/out 2>&1 &`)
	s.until(t, "test -e /run/ready")
	spec := specOf(t, root)
	spec.Saved = s.save(t)
	s.Close()
	again := linked(spec)
	again.shell(t, "echo on >/run/go")
	again.until(t, "test $(wc -l </run/out) -ge 3")
	if got := again.shell(t, "cat /run/out"); got != "b'within'\ncut\nb'hello'" {
		t.Errorf("it sees %q", got)
	}
}

// TestFullDiskWhileSaving checks that the error of Save contains the reason, and that Save leaves
// no files. The machine continues to run and can be saved elsewhere.
func TestFullDiskWhileSaving(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	s := start(t, d, specOf(t, root))
	s.shell(t, "head -c 30000000 /dev/urandom >/run/random; sha256sum /run/random >/run/sum")
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=60m"); errors.Is(err, unix.EPERM) {
		testenv.Lacks(t, "mounts of small disks: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	full := filepath.Join(small, "full")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int64{0, 100 << 10, 5 << 20, 30 << 20} { // with the last value, nearly all memory fits on the disk
		if err := os.WriteFile(filepath.Join(small, "filler"), make([]byte, 60<<20-room), 0o600); err != nil && !errors.Is(err, unix.ENOSPC) {
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
	spec := specOf(t, root)
	spec.Saved = s.save(t)
	s.Close()
	if got := start(t, d, spec).shell(t, "sha256sum -c /run/sum"); got != "/run/random: OK" {
		t.Error(got)
	}
}

// TestMachineDiesDuringSave kills the sentry while the machine is being saved.
func TestMachineDiesDuringSave(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	machinetest.KilledWhileSaved(t, "pages", func() machine.Machine {
		s := start(t, d, specOf(t, root))
		s.shell(t, "head -c 60000000 /dev/urandom >/run/random")
		return s.Machine
	}, func(dir string) {
		spec := specOf(t, root)
		spec.Saved = dir
		start(t, d, spec).shell(t, "test -s /run/random")
	})
}

// TestFreeMemoryIsOmitted checks that saved files contain neither free memory nor zero pages.
func TestFreeMemoryIsOmitted(t *testing.T) {
	s := start(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)))
	s.shell(t, "head -c 60000000 /dev/urandom >/run/random; rm /run/random; head -c 60000000 /dev/zero >/run/zero")
	dir := s.save(t)
	if info, err := os.Stat(filepath.Join(dir, "pages")); err != nil || info.Size() > 20<<20 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}
