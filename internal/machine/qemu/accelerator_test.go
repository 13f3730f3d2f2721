package qemu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestRefusalsThatAreStored checks that a probe stores a refusal only if QEMU ran and booted no
// kernel. If the probe was interrupted, the next call tests the accelerator again.
func TestRefusalsThatAreStored(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("machines under QEMU need an x86-64 host")
	}
	const killed = "sleep 60" // a process can't kill itself, because it is the first one in its namespace
	canceled := errors.New("the caller has left")
	for _, c := range []struct {
		name, script string
		timeout      time.Duration
		stored       bool
	}{
		{"QEMU fails", "exit 1", time.Minute, true},
		{"QEMU crashes", `exec perl -e 'unpack "p", pack "J", 1'`, time.Minute, true}, // reads address 1
		{"QEMU is killed", killed, time.Minute, false},
		{"the caller leaves", "exec sleep 60", 2 * time.Second, false},
	} {
		dir, err := os.MkdirTemp("", "pyro-probe-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		program, work := filepath.Join(dir, "qemu"), filepath.Join(dir, "work")
		script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo QEMU emulator version 8.2.0; exit; fi\n" + c.script + "\n"
		if err := errors.Join(os.Chmod(dir, 0o755), testenv.WriteProgram(program, []byte(script)), os.Mkdir(work, 0o755)); err != nil {
			t.Fatal(err)
		}
		d := New(Config{Isolation: machine.TCG, Dirs: dirs.Dirs{Cache: filepath.Join(dir, "cache")}})
		p := parts{binary: Binary{Path: program}, kernel: environment.Kernel{Path: program}, initramfs: environment.Initramfs{Path: program}}
		if err := os.MkdirAll(filepath.Dir(d.verdictPath(p, machine.TCG)), 0o700); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), c.timeout, canceled)
		if c.script == killed {
			go killProgram(ctx, program)
		}
		v, err := d.race(ctx, p, work)
		cancel()
		if (err == nil) != c.stored || v.Works {
			t.Errorf("%s: got %+v, %v", c.name, v, err)
		}
		if _, stored := d.readVerdict(p, machine.TCG); stored != c.stored {
			t.Errorf("%s: stored %t", c.name, stored)
		}
	}
}

// TestRefusalExpires checks that a refusal is valid for at most a day, even if the host's clock was
// set back. It ends earlier if the host makes its device again.
func TestRefusalExpires(t *testing.T) {
	device := filepath.Join(t.TempDir(), "kvm")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	real := kvmDevice
	kvmDevice = device
	t.Cleanup(func() { kvmDevice = real })
	d := New(Config{Isolation: machine.TCG, Dirs: dirs.Dirs{Cache: t.TempDir()}})
	if err := os.MkdirAll(filepath.Dir(d.verdictPath(parts{}, machine.TCG)), 0o700); err != nil {
		t.Fatal(err)
	}
	for age, valid := range map[time.Duration]bool{time.Hour: true, refusalLife + time.Hour: false, -time.Hour: false} {
		if err := d.writeVerdict(parts{}, machine.TCG, verdict{TSCKHz: 1, Device: deviceState(), At: time.Now().Add(-age)}); err != nil {
			t.Fatal(err)
		}
		if _, ok := d.readVerdict(parts{}, machine.TCG); ok != valid {
			t.Errorf("age %s: valid %t", age, ok)
		}
	}
	for _, works := range []bool{false, true} {
		if err := d.writeVerdict(parts{}, machine.TCG, verdict{Works: works, TSCKHz: 1, Device: deviceState(), At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(device+".new", nil, 0o600), os.Rename(device+".new", device)); err != nil {
			t.Fatal(err)
		}
		if _, ok := d.readVerdict(parts{}, machine.TCG); ok != works {
			t.Errorf("new device, works %t: valid %t", works, ok)
		}
	}
}

// killProgram kills the shell that runs a script, as soon as there is one.
func killProgram(ctx context.Context, script string) {
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range all {
			line, err := os.ReadFile(path)
			if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid > 1 && bytes.HasPrefix(line, []byte("/bin/sh\x00"+script+"\x00")) {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}
