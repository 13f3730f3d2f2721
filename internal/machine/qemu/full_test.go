//go:build machine

package qemu

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestFullDiskDuringTemplate checks the error of Start if the disk is full, and that Start leaves
// no files. With enough space Start must succeed.
func TestFullDiskDuringTemplate(t *testing.T) {
	t.Parallel()
	d := privateDirs(t)
	if err := os.MkdirAll(d.Templates(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", d.Templates(), "tmpfs", 0, "size=48m"); errors.Is(err, unix.EPERM) {
		testenv.Lacks(t, "mounts of small disks: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(d.Templates(), unix.MNT_DETACH)
	driver, root := driverIn(t, machine.TCG, d), machinetest.Debian(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id := client.NewIdentity("full")
	m, err := driver.Start(ctx, machine.Spec{ID: "full-" + id.MachineID[:8], Dir: t.TempDir(), Root: root, VCPUs: 1, MemMiB: 256})
	if err == nil {
		m.Close()
	}
	if fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a full disk: %v", err)
	}
	entries, _ := os.ReadDir(d.Templates())
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("leftover: %s", e.Name())
		}
	}
	if err := unix.Mount("", d.Templates(), "", unix.MS_REMOUNT, "size=1g"); err != nil {
		t.Fatal(err)
	}
	startSmall(t, driver, root).works(t)
}
