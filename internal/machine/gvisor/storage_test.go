//go:build machine

package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// workspace is the folder in the machine at which the volume is mounted.
const workspace = "/workspace"

// stored is a machine with a volume.
type stored struct {
	*started
	files string // folder on the host that contains the volume's files
}

func (s *stored) sandbox() *sandbox { return s.Machine.(*sandbox) }

// startStored starts a machine with storage and mounts its volume.
func startStored(t *testing.T, d *Driver, spec machine.Spec, storage machine.TreeStorage) *stored {
	t.Helper()
	spec.Storage = &machine.Storage{Tree: &storage}
	s := start(t, d, spec)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := s.agent.Mount(ctx, client.Mounts{Volume: true}); err != nil {
		t.Fatal(err)
	}
	return &stored{s, filepath.Join(storage.Folder, "files")}
}

func (s *stored) host(name string) string { return filepath.Join(s.files, name) }

// TestKilledMachineKeepsVolume checks that all completed writes survive if the sentry
// or the gofer is killed. In both cases the whole machine must end.
func TestKilledMachineKeepsVolume(t *testing.T) {
	d, root, folder := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t), t.TempDir()
	for i, victim := range []string{"sentry", "gofer"} {
		s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder})
		s.shell(t, fmt.Sprintf("cd %s && echo begun >%d && mkdir d%d && seq 100000 >d%d/many && echo ended >>%d && mv %d file%d", workspace, i, i, i, i, i, i))
		pid := map[string]int{"sentry": s.PID(), "gofer": s.sandbox().gofer.PID()}[victim]
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Done():
		case <-time.After(patience):
			t.Fatalf("the machine still runs without its %s", victim)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), victim+" was killed by signal 9") {
			t.Errorf("the machine ended with %v", err)
		}
		for _, pid := range []int{s.PID(), s.sandbox().gofer.PID()} {
			if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				t.Errorf("without its %s, process %d still runs", victim, pid)
			}
		}
		if b, err := os.ReadFile(s.host(fmt.Sprintf("file%d", i))); err != nil || string(b) != "begun\nended\n" {
			t.Errorf("after the death of the %s: %q, %v", victim, b, err)
		}
		if b, err := os.ReadFile(s.host(fmt.Sprintf("d%d/many", i))); err != nil || !bytes.HasSuffix(b, []byte("\n100000\n")) {
			t.Errorf("after the death of the %s: %d bytes, %v", victim, len(b), err)
		}
	}
	s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder})
	if got := s.shell(t, "cd "+workspace+" && cat file0 file1 && tail -qn1 d*/many"); got != "begun\nended\nbegun\nended\n100000\n100000" {
		t.Errorf("next machine: got %q", got)
	}
}

// TestHardLinksLeaveNoOpenFiles checks that the gofer does not keep files open after it made many
// hard links. Git makes a hard link for each object.
func TestHardLinksLeaveNoOpenFiles(t *testing.T) {
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: t.TempDir()})
	open := func() int {
		t.Helper()
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.sandbox().gofer.PID()))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := open()
	s.shell(t, "mkdir "+workspace+"/d && cd "+workspace+"/d && python3 -c "+`"
import os, threading
def work(k):
    for i in range(300):
        open('t%d' % k, 'w').close()
        os.link('t%d' % k, 'o%d-%d' % (k, i))
        os.unlink('t%d' % k)
all = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in all]
[t.join() for t in all]
" && ls | wc -l | grep -qx 1200 && rm -r `+workspace+"/d")
	if after := open(); after > before+100 { // some other files can be in the gofer's cache
		t.Errorf("the gofer has %d open files, had %d before", after, before)
	}
}

// TestVolumeIsSharedWithHost checks that the machine and the host see each other's changes
// immediately, including changes to owners and modes.
func TestVolumeIsSharedWithHost(t *testing.T) {
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: t.TempDir()})
	inside := func(want, line string) {
		t.Helper()
		if got := s.shell(t, "cd "+workspace+" && "+line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	inside("", "ls; ! test -e made")
	try(os.WriteFile(s.host("made"), []byte("one\n"), 0o640))
	inside("one 640", "echo $(cat made) $(stat -c %a made)")
	try(os.WriteFile(s.host("made"), []byte("another\n"), 0))
	inside("another", "cat made")
	try(os.Rename(s.host("made"), s.host("moved")))
	inside("another", "! test -e made && cat moved")
	try(os.Mkdir(s.host("folder"), 0o700))
	try(os.Symlink("../moved", s.host("folder/link")))
	inside("another", "cat folder/link")
	try(os.Remove(s.host("moved")))
	inside("folder", "! test -e folder/link && ls")

	s.shell(t, "cd "+workspace+` && echo text >mine && echo more >>mine && chown 33:44 mine && chmod 4750 mine && ln mine hard && ln -s nowhere soft &&
		touch -d @1000000000.123456789 hard && mkdir -p a/b && chmod 1777 a && cp /bin/true a/b && a/b/true && touch "$(printf 'n\374\nm')"`)
	info, err := os.Lstat(s.host("mine"))
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if info.Mode() != 0o750|fs.ModeSetuid || stat.Uid != 33 || stat.Gid != 44 || stat.Nlink != 2 {
		t.Errorf("the file is %v of %d:%d with %d names", info.Mode(), stat.Uid, stat.Gid, stat.Nlink)
	}
	if want := time.Unix(1000000000, 123456789); !info.ModTime().Equal(want) {
		t.Errorf("it was changed at %v", info.ModTime())
	}
	if b, err := os.ReadFile(s.host("hard")); err != nil || string(b) != "text\nmore\n" {
		t.Errorf("%q, %v", b, err)
	}
	if target, err := os.Readlink(s.host("soft")); err != nil || target != "nowhere" {
		t.Errorf("%q, %v", target, err)
	}
	if info, err := os.Stat(s.host("a")); err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Lstat(s.host("n\xfc\nm")); err != nil {
		t.Error(err)
	}
	inside("gone", "rm -r a hard mine soft && echo gone")
	// Sockets and FIFOs connect processes of the same machine only.
	inside("through a pipe", "mkfifo pipe && (echo through a pipe >pipe & cat pipe) && rm pipe")
	inside("through a socket", `python3 -c 'import socket
listener, caller = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
listener.bind("socket"); listener.listen(); caller.connect("socket"); listener.accept()[0].send(b"through a socket"); print(caller.recv(99).decode())' && rm socket`)
	if left, err := filepath.Glob(s.host("*")); err != nil || len(left) != 2 {
		t.Errorf("%q, %v", left, err)
	}
}

// TestIncompleteVolumesAreMarked checks that the folder on the host is marked if the machine has
// files that the folder lacks. A boot removes these files and the mark.
func TestIncompleteVolumesAreMarked(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	for what, line := range map[string]string{
		"a pipe": "mkfifo pipe && ls", "a socket": `python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")' && ls`,
	} {
		folder := t.TempDir()
		mark := filepath.Join(folder, machine.TreeIncomplete)
		marked := func(want bool) {
			t.Helper()
			if _, err := os.Lstat(mark); (err == nil) != want {
				t.Errorf("%s: the mark: %v, want %t", what, err, want)
			}
		}
		s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder})
		s.shell(t, "cd "+workspace+" && mkdir a && echo text >file && ln file hard && ln -s file link && mv file a && mv a b && rm hard")
		marked(false)
		if got := s.shell(t, "cd "+workspace+"/b && "+line); !strings.Contains(got, strings.Fields(what)[1]) {
			t.Errorf("%s: the machine lists %q", what, got)
		}
		marked(true)
		s.Close()
		marked(true)
		s = startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder})
		marked(false)
		s.Close()
	}
}

// TestMappedWritesReachVolume checks that the host sees all writes of a running machine
// immediately, although nothing flushes them. That includes writes through a mapping.
func TestMappedWritesReachVolume(t *testing.T) {
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: t.TempDir()})
	s.shell(t, "cd "+workspace+` && (python3 -c "
import mmap, os, time
f = open('mapped', 'w+b')
f.truncate(8192)
m = mmap.mmap(f.fileno(), 8192)
m[5000:5005] = b'first'
w = open('open', 'wb', buffering=0)
w.write(b'written')
open('ready', 'w').close()
while not os.path.exists('go'): time.sleep(0.01)
m[5000:5006] = b'second'
os.ftruncate(w.fileno(), 3)
os.rename('ready', 'done')
time.sleep(1000)
" >/dev/null 2>&1 &) ; until test -e ready; do sleep 0.01; done`)
	want := func(mapped, written string) {
		t.Helper()
		b, err := os.ReadFile(s.host("mapped"))
		if err != nil || len(b) != 8192 || string(b[5000:5000+len(mapped)]) != mapped {
			t.Errorf("the mapped file: %d bytes, %v", len(b), err)
		}
		if b, err := os.ReadFile(s.host("open")); err != nil || string(b) != written {
			t.Errorf("the open file: %q, %v", b, err)
		}
	}
	want("first", "written")
	s.shell(t, "cd "+workspace+" && touch go && until test -e done; do sleep 0.01; done")
	want("second", "wri")
	if _, err := os.Lstat(s.host("ready")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestLinksStayInMachine checks that symbolic links in a volume lead to files of the machine,
// not of the host. It also checks that device files in a volume can't be opened.
func TestLinksStayInMachine(t *testing.T) {
	folder := t.TempDir()
	secret := filepath.Join(folder, "secret")
	volume := filepath.Join(folder, "volume")
	if err := errors.Join(os.WriteFile(secret, []byte("the host's"), 0o644), os.Mkdir(volume, 0o755)); err != nil {
		t.Fatal(err)
	}
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: volume})
	s.shell(t, "echo 'the machine' >/etc/whose")
	for name, target := range map[string]string{
		"absolute": "/etc/whose", "relative": "../../../../../../../../../../../../etc/whose", "inside": workspace + "/../../etc/whose",
	} {
		if err := os.Symlink(target, s.host(name)); err != nil {
			t.Fatal(err)
		}
		if got := s.shell(t, "cat "+workspace+"/"+name); got != "the machine" {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, target := range map[string]string{"secret1": secret, "secret2": "../../secret", "folder": folder, "proc": "/proc/1/root/" + secret} {
		if err := os.Symlink(target, s.host(name)); err != nil {
			t.Fatal(err)
		}
		if got := s.shell(t, "cat "+workspace+"/"+name+"/secret "+workspace+"/"+name+" 2>/dev/null; :"); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := s.shell(t, "cd "+workspace+" && cd .. && cd .. && cat etc/whose"); got != "the machine" {
		t.Errorf("above it is %q", got)
	}
	// If a program makes a file through a symbolic link, the file is in the machine too.
	s.shell(t, "ln -s /root/made "+workspace+"/made && echo x >"+workspace+"/made && test -s /root/made")

	for _, node := range []struct {
		name         string
		kind         uint32
		major, minor uint32
		machines     string // type letter for mknod(1)
	}{{"mem", unix.S_IFCHR, 1, 1, "c"}, {"kmsg", unix.S_IFCHR, 1, 11, "c"}, {"tty", unix.S_IFCHR, 4, 0, "c"}, {"disk", unix.S_IFBLK, 254, 0, "b"}} {
		line := fmt.Sprintf("mknod %s/own-%s %s %d %d 2>&1", workspace, node.name, node.machines, node.major, node.minor)
		if got := s.shell(t, "! "+line); !strings.Contains(got, "not permitted") {
			t.Errorf("%s: %q", line, got)
		}
		if err := unix.Mknod(s.host(node.name), node.kind|0o666, int(unix.Mkdev(node.major, node.minor))); err != nil {
			t.Log("the host can't create devices:", err)
			continue
		}
		if got := s.shell(t, fmt.Sprintf("! head -c 1 %s/%s 2>&1", workspace, node.name)); got == "" {
			t.Errorf("%s can be read", node.name)
		}
		s.shell(t, fmt.Sprintf("! echo x 2>/dev/null >%s/%s", workspace, node.name))
	}
}

// TestPause checks that nothing runs in a paused machine, and that nothing writes to its volume.
func TestPause(t *testing.T) {
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: t.TempDir()})
	s.shell(t, "cd "+workspace+" && (i=0; while :; do i=$((i+1)); echo $i >>beat; done) >/dev/null 2>&1 &")
	size := func() int64 {
		info, err := os.Stat(s.host("beat"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	testenv.Eventually(t, "the program writes", func() bool {
		_, err := os.Stat(s.host("beat"))
		return err == nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try(s.sandbox().Resume(ctx)) // Resume does nothing while the machine runs
	for range 3 {
		try(s.sandbox().Pause(ctx))
		try(s.sandbox().Pause(ctx))
		before := size()
		time.Sleep(300 * time.Millisecond)
		if after := size(); after != before {
			t.Errorf("a paused machine has written %d bytes", after-before)
		}
		try(s.sandbox().SaveRoot(ctx, filepath.Join(t.TempDir(), "root")))
		try(s.sandbox().Resume(ctx))
		try(s.sandbox().Resume(ctx))
		began := time.Now()
		for size() == before {
			if time.Since(began) > patience {
				t.Fatal("the resumed machine makes no progress")
			}
			time.Sleep(time.Millisecond)
		}
	}
	s.shell(t, "echo answers")
	try(s.sandbox().Pause(ctx))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.sandbox().Resume(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	s.Close()
	if err := s.sandbox().Pause(ctx); fault.KindOf(err) != fault.Precondition {
		t.Errorf("a machine that has ended: %v", err)
	}
}

// TestPausedMachineDiesWithOwner checks that the sentry and the gofer of a paused machine die
// when pyro is killed.
func TestPausedMachineDiesWithOwner(t *testing.T) {
	const inside = "PYRO_TEST_OWNER"
	if folder := os.Getenv(inside); folder != "" {
		s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: folder})
		if err := s.sandbox().Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		pids := fmt.Sprint(s.PID(), " ", s.sandbox().gofer.PID())
		if err := os.WriteFile(filepath.Join(folder, "pids"), []byte(pids), 0o600); err != nil {
			t.Fatal(err)
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	folder := t.TempDir()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	// The killed process can't remove its temporary files, so the test does.
	cmd.Env = append(os.Environ(), inside+"="+folder, "TMPDIR="+t.TempDir())
	out, _ := cmd.CombinedOutput()
	pids, err := os.ReadFile(filepath.Join(folder, "pids"))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, field := range strings.Fields(string(pids)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
			if state := statusOf(fmt.Sprintf("/proc/%d/status", pid))["State"]; strings.HasPrefix(state, "Z") {
				break // the process is dead, but this process is not its parent and can't reap it
			}
			if time.Since(began) > testenv.Patience {
				t.Fatalf("%d outlives its owner", pid)
			}
		}
	}
}

// TestMissingVolume checks that Start fails if the folder of the volume does not exist, and
// leaves no files.
func TestMissingVolume(t *testing.T) {
	d, spec := driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t))
	spec.Storage = &machine.Storage{Tree: &machine.TreeStorage{Folder: filepath.Join(t.TempDir(), "missing")}}
	m, err := d.Start(t.Context(), spec)
	if err == nil {
		m.Close()
		t.Fatal("it started, want an error")
	}
	if !strings.Contains(err.Error(), "missing: no such file or directory") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(spec.Dir); len(left) != 0 {
		t.Errorf("leftovers: %v", left)
	}
}
