//go:build machine

package gvisor

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// changes is a script that changes a root in every possible way. The script describe prints the
// result.
const changes = `
	cd /root && umask 022
	echo added >added && mkdir -p folder/below && echo deep >folder/below/file
	echo changed >/etc/issue
	rm /etc/debian_version
	rm -r /usr/share/doc
	rm -r /usr/share/man && mkdir /usr/share/man && echo mine >/usr/share/man/mine
	rm -r /usr/share/info && echo 'no folder' >/usr/share/info
	rm /etc/motd && mkdir /etc/motd && echo in >/etc/motd/in
	chmod 750 /usr/games && chown 12:34 /usr/games
	chmod 4711 /bin/true
	chown -h 56:78 /bin/sh
	ln -s target link && ln -sf other /etc/localtime
	echo linked >one && ln one two && ln two folder/three
	echo owned >owned && chown 1234567:7654321 owned && chmod 6755 owned && touch -d @1234567890.987654321 owned
	mkfifo -m 622 fifo && mknod -m 640 device c 1 3
	python3 -c 'import os
os.setxattr("added", "user.text", b"a value")
open("folder/none", "w").close()
open(b"n\xfc\nm", "w").write("x")
f = open("holes", "wb"); f.seek(1 << 40); f.write(b"end"); f.truncate((1 << 40) + (1 << 20)); f.seek(8192); f.write(b"middle"); f.close()'
	mkdir empty && chmod 1770 empty && touch -d @1000000000 empty folder
	mkdir -p /tmp/in && echo tmp >/tmp/in/tmp
`

const describe = `
	cd /root
	cat added folder/below/file /etc/issue /usr/share/man/mine /usr/share/info /etc/motd/in one folder/three /tmp/in/tmp
	ls -A /usr/share/man; ls -d /etc/debian_version /usr/share/doc 2>&1
	stat -c '%n %A %u:%g %Y' /usr/games /bin/true owned empty fifo folder folder/none; stat -c '%n %u:%g' /bin/sh
	stat -c '%.Y' owned; stat -c '%h' two; stat -c '%A %t:%T' device
	readlink link /etc/localtime; test one -ef folder/three && echo one file
	python3 -c 'import os
print(os.getxattr("added", "user.text"), open(b"n\xfc\nm").read(), os.path.getsize("holes"), os.stat("holes").st_blocks < 100)
f = open("holes", "rb"); print(f.read(8192) == bytes(8192), f.read(6)); f.seek(1 << 40); print(f.read(4))'
`

// TestStartFromSavedRoot checks that a machine that starts from a saved root sees the same
// files, both changed and unchanged. It saves and starts several times in a row.
func TestStartFromSavedRoot(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	folder, kept := t.TempDir(), filepath.Join(t.TempDir(), "root")
	s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder})
	s.shell(t, changes)
	want := s.shell(t, describe)
	if strings.Count(want, "No such file") != 2 || !strings.Contains(want, "one file") || !strings.Contains(want, "1234567890.987654321") {
		t.Fatalf("the changes are not as they should be: %s", want)
	}
	for round := range 3 {
		if err := s.sandbox().SaveRoot(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		if got := s.shell(t, describe); got != want {
			t.Errorf("round %d: root of the running machine after SaveRoot: got\n%s\nwant\n%s", round, got, want)
		}
		s.Close()
		s = startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder, Root: kept})
		if got := s.shell(t, describe); got != want {
			t.Errorf("round %d: the next machine has\n%s, not\n%s", round, got, want)
		}
	}
	// Deleted files must stay deleted, and no other files may appear.
	s.shell(t, "rm -r /root/* /usr/share/man /usr/share/info; ! ls -d /usr/share/doc 2>/dev/null")
	if err := s.sandbox().SaveRoot(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	s = startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder, Root: kept})
	if got := s.shell(t, "ls -A /root /usr/share/man /usr/share/info 2>&1 | grep -v '^$'; cat /etc/issue; ls /etc/apt /usr/lib/os-release | wc -l"); strings.Contains(got, "added") ||
		strings.Count(got, "No such file") != 2 || !strings.Contains(got, "changed") {
		t.Errorf("after deleting, the next machine has %s", got)
	}
	if left, _ := os.ReadDir(filepath.Dir(kept)); len(left) != 1 {
		t.Errorf("got files %v beside the saved root, want none", left)
	}
	checkArchive(t, kept)
}

// checkArchive checks an archive with tar and with Go's tar reader, because both are independent of
// the code that wrote it.
func checkArchive(t *testing.T, path string) {
	t.Helper()
	list, err := exec.Command("tar", "-tf", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, list)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := map[string]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = h.Typeflag
	}
	for name, kind := range map[string]byte{"./": tar.TypeDir, "etc/": tar.TypeDir, "etc/issue": tar.TypeReg, "usr/share/doc": tar.TypeChar, "etc/localtime": tar.TypeSymlink} {
		if names[name] != kind {
			t.Errorf("%q is a %q", name, names[name])
		}
	}
	for name := range names {
		if strings.HasPrefix(name, "workspace/") && name != "workspace/" || strings.HasPrefix(name, "proc/") && name != "proc/" {
			t.Errorf("%q is not in the root", name)
		}
	}
}

// TestSaveRootIsStreamed saves and restores a file that is larger than the memory of the
// machine and its sentry together.
func TestSaveRootIsStreamed(t *testing.T) {
	d, spec := driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t))
	spec.MemMiB = 128
	folder, kept := t.TempDir(), filepath.Join(t.TempDir(), "root")
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		testenv.Lacks(t, "temporary files on a disk; in memory, the root of a machine is too: ", err)
	}
	s := startStored(t, d, spec, machine.TreeStorage{Folder: folder})
	sum := s.shell(t, "head -c 300M /dev/urandom >/root/large && md5sum </root/large")
	if err := s.sandbox().SaveRoot(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	s.Close()
	spec.Dir = t.TempDir()
	s = startStored(t, d, spec, machine.TreeStorage{Folder: folder, Root: kept})
	if got := s.shell(t, "md5sum </root/large"); got != sum {
		t.Errorf("it was %s, and is %s", sum, got)
	}
}

// TestDamagedRoot checks that Start fails if the saved root is damaged.
func TestDamagedRoot(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	dir := t.TempDir()
	kept := filepath.Join(dir, "root")
	s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: t.TempDir()})
	s.shell(t, "seq 100000 >/root/file")
	if err := s.sandbox().SaveRoot(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"cut": whole[:len(whole)/2], "garbage": []byte(strings.Repeat("garbage ", 1000))} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		spec := specOf(t, root)
		spec.Storage = &machine.Storage{Tree: &machine.TreeStorage{Folder: t.TempDir(), Root: path}}
		m, err := d.Start(t.Context(), spec)
		if err == nil {
			m.Close()
			t.Errorf("%s: it started, want an error", name)
		} else if !strings.Contains(err.Error(), "read the earlier changes") && !strings.Contains(err.Error(), "unexpected EOF") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFailedSaveRootKeepsFile checks that the earlier file does not change if SaveRoot fails.
func TestFailedSaveRootKeepsFile(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	kept := filepath.Join(t.TempDir(), "root")
	if err := os.WriteFile(kept, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := start(t, d, specOf(t, root))
	if err := plain.Machine.(*sandbox).SaveRoot(t.Context(), kept); fault.KindOf(err) != fault.Precondition {
		t.Errorf("a machine without storage: %v", err)
	}
	s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: t.TempDir()})
	s.shell(t, "head -c 200M /dev/urandom >/root/file")
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() { asked <- s.sandbox().SaveRoot(ctx, kept) }()
	for parts := 0; parts == 0; time.Sleep(time.Millisecond) { // until SaveRoot writes
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(kept), ".*"))
		parts = len(found)
	}
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := s.sandbox().SaveRoot(t.Context(), filepath.Join(filepath.Dir(kept), "missing", "root")); fault.KindOf(err) != fault.NotFound {
		t.Errorf("no such folder: %v", err)
	}
	if b, _ := os.ReadFile(kept); string(b) != "before" {
		t.Errorf("leftover: %q", b)
	}
	if left, _ := os.ReadDir(filepath.Dir(kept)); len(left) != 1 {
		t.Errorf("got files %v beside the saved root, want none", left)
	}
	s.shell(t, "echo the machine goes on")
	if err := s.sandbox().SaveRoot(t.Context(), kept); err != nil {
		t.Errorf("after all that: %v", err)
	}
}
