//go:build machine

package gvisor

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// fills is a Python program that fills a volume in the way that its argument names. It prints the
// error, which must be ENOSPC. The files must not exceed the limit.
const fills = `import ctypes, errno, mmap, os, sys
way, block = sys.argv[1], b"x" * (1 << 20)
def write(): 
	f = os.open("big", os.O_CREAT | os.O_WRONLY)
	while True: os.write(f, block)
def vector():
	f = os.open("big", os.O_CREAT | os.O_WRONLY)
	while True: os.writev(f, [block, block])
def allocate():
	f = os.open("big", os.O_CREAT | os.O_WRONLY)
	for i in range(1000): os.posix_fallocate(f, i << 20, 1 << 20)
def mapped():
	for i in range(1000):
		f = os.open("big%d" % i, os.O_CREAT | os.O_RDWR)
		os.ftruncate(f, 1 << 20)
		m = mmap.mmap(f, 1 << 20)
		m[:] = block
def removed():
	f = os.open("big", os.O_CREAT | os.O_WRONLY)
	os.unlink("big")
	for i in range(1000): os.write(f, block)
def copied():
	f, g = os.open("from", os.O_CREAT | os.O_RDWR), os.open("big", os.O_CREAT | os.O_WRONLY)
	os.write(f, block)
	while True:
		if os.copy_file_range(f, g, 1 << 30, 0) == 0: sys.exit("nothing copied")
def small():
	for i in range(1000000):
		with open("small%d" % i, "wb", 0) as f: f.write(b"x")
try: globals()[way]()
except OSError as e: print(errno.errorcode[e.errno])
`

// TestVolumeLimit checks that all kinds of writes to a full volume fail with ENOSPC, and that
// writes succeed again after files are removed.
func TestVolumeLimit(t *testing.T) {
	const limit = 64 << 20
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: t.TempDir(), Bytes: limit})
	s.shell(t, "cat >/tmp/fills.py <<'E'\n"+fills+"\nE\n")
	if got := s.shell(t, "df --output=size,fstype -B1 "+workspace+" | tail -1"); !strings.HasPrefix(strings.TrimSpace(got), "67108864") {
		t.Errorf("df shows %q", got)
	}
	for _, way := range []string{"write", "vector", "allocate", "mapped", "removed", "copied", "small"} {
		if got := strings.TrimSpace(s.shell(t, "cd "+workspace+" && python3 /tmp/fills.py "+way)); got != "ENOSPC" {
			t.Errorf("%s: %q", way, got)
		}
		used, _, err := tree.Size(t.Context(), s.files)
		if err != nil {
			t.Fatal(err)
		}
		if least := int64(limit * 9 / 10); used > limit+limit/10 || used < least && way != "removed" {
			t.Errorf("%s: %d bytes of a volume of %d are used", way, used, limit)
		}
		s.shell(t, "cd "+workspace+" && rm -rf -- *")
	}
	if got := s.shell(t, "cd "+workspace+" && dd if=/dev/zero of=again bs=1M count=50 status=none && wc -c <again"); got != "52428800" {
		t.Errorf("after all was removed: %q", got)
	}
}
