//go:build machine

package gvisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// unmarked makes a volume with the same files as shareAll, but without marks and links. A copy of
// the volume can be made at the path dst.
func unmarked(t *testing.T, names []string) (dst, volume string) {
	t.Helper()
	dst, volume = shareAll(t, names)
	for _, name := range names {
		if err := unix.Removexattr(filepath.Join(dst, name), xattr.Shared); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(dst); err != nil {
		t.Fatal(err)
	}
	return dst, volume
}

// TestFilesWithSeveralNames checks files that have no space for the attribute of files with several
// names. A program can use them as usual, and they are not shared later.
func TestFilesWithSeveralNames(t *testing.T) {
	names := []string{"two", "one"}
	dst, volume := unmarked(t, names)
	at := func(name string) string { return filepath.Join(volume, "files", name) }
	for _, name := range names {
		for size := 4096; size > 0; size /= 2 {
			for n := 0; unix.Setxattr(at(name), fmt.Sprintf("user.%d-%d", size, n), make([]byte, size), 0) == nil && n < 100; n++ {
			}
		}
	}
	if err := os.Link(at("two"), at("other")); err != nil {
		t.Fatal(err)
	}
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: volume})
	want := strings.TrimSpace(strings.Repeat("0123456789\n", 4))
	if got := s.shell(t, "cd "+workspace+" && ln one another && cat two other one another && rm other another && sync"); got != want {
		t.Errorf("got %q", got)
	}
	const list = "import ctypes; c = ctypes.CDLL(None); n = c.listxattr(b'two', None, 0); print(c.listxattr(b'two', ctypes.create_string_buffer(n), n) == n > 0)"
	if got := s.shell(t, "cd "+workspace+" && python3 -c \""+list+"\""); got != "True" {
		t.Errorf("a list of attributes that is exactly large enough: %q", got)
	}
	if _, err := tree.CopySharing(t.Context(), dst, s.files, tree.Sharing{Marked: true, Mark: true, Paused: true}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if isShared(s.host(name)) {
			t.Errorf("%s is shared", name)
		}
	}
}

// TestFilesOfPausedMachineAreShared copies the volume of a paused machine, and then changes its
// files in all ways. The copy must never change, and the machine must notice nothing. The copy must
// share all files, except one that a program has open for writing, and one that had two names. A
// file that a program has written and closed is shared.
func TestFilesOfPausedMachineAreShared(t *testing.T) {
	ways := changeWays()
	names := append(slices.Clone(ways), "closed")
	all := append(names, "written-later", "two-names")
	dst, volume := unmarked(t, all)
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: volume})
	s.shell(t, "cat >/tmp/changes.py <<'E'\n"+changers+"\nE\n")
	s.shell(t, "cd "+workspace+" && rm closed && echo new >closed")
	s.shell(t, "cd "+workspace+" && ln two-names other && exec 3<other && rm other && stat two-names")
	look := "cd " + workspace + " && stat -c '%n %i %h %z' *" // the gofer knows all files
	seen := s.shell(t, look)
	go s.agent.Exec(t.Context(), program.Command{Argv: []string{"sh", "-c", "exec 3>>" + workspace + "/written-later; touch /tmp/open; sleep 600"}}, program.Attach{})
	s.shell(t, "until [ -e /tmp/open ]; do sleep 0.01; done")

	if err := s.Machine.(machine.Pauser).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.CopySharing(t.Context(), dst, s.files, tree.Sharing{Marked: true, Mark: true, Paused: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Machine.(machine.Pauser).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		var original, copied unix.Stat_t
		if err := unix.Lstat(s.host(name), &original); err != nil {
			t.Fatal(err)
		}
		if err := unix.Lstat(filepath.Join(dst, name), &copied); err != nil {
			t.Fatal(err)
		}
		if shared := original.Ino == copied.Ino; shared != slices.Contains(names, name) || shared != isShared(s.host(name)) {
			t.Errorf("%s is shared: %t", name, shared)
		}
	}
	before := describeAll(t, dst)
	if got := s.shell(t, look); got != seen {
		t.Errorf("the machine saw\n%s\nand now sees\n%s", seen, got)
	}
	if got := s.shell(t, "cd "+workspace+" && python3 /tmp/changes.py "+strings.Join(ways, " ")); got != "" {
		t.Errorf("inside:\n%s", got)
	}
	if after := describeAll(t, dst); !slices.Equal(before, after) {
		t.Errorf("shared files changed:\n%s\nwere:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}
