package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// mounts reports whether the test can mount file systems in its own mount namespace. If not, mounts
// runs the test again in a new mount namespace.
func mounts(t *testing.T) bool {
	t.Helper()
	const inside = "PYRO_TEST_MOUNTS"
	if os.Getenv(inside) == t.Name() {
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", (5 * testenv.Patience).String())
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM), bytes.Contains(out, []byte("--- SKIP: "+t.Name())):
		testenv.Lacks(t, "mounts: ", err, ": ", string(out))
	case err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Errorf("%v: %s", err, out)
	}
	return false
}

// small mounts a file system with a size of kib KiB.
func small(t *testing.T, folder string, kib int) {
	t.Helper()
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = unix.Mount("none", folder, "tmpfs", 0, fmt.Sprintf("size=%dk", kib))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(folder, unix.MNT_DETACH) })
}

// fill fills a file system until only butKiB KiB are free.
func fill(t *testing.T, folder string, butKiB int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(folder, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := io.Copy(f, zeros{}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("%d bytes: %v", n, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(info.Size() - butKiB<<10)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// numbers prints 1 to 2000, waits for input, and prints 2001 to 4000. Its exit status is 4.
const numbers = `stty -echo; seq 2000; read -r x; seq 2001 4000; exit 4`

func isNumbers(text string) bool {
	var want strings.Builder
	for i := 1; i <= 4000; i++ {
		fmt.Fprintf(&want, "%d\r\n", i)
	}
	return text == want.String()
}

// TestBrokenLogFolder checks that a session with a broken log folder continues, keeps its output,
// and reports the error once.
func TestBrokenLogFolder(t *testing.T) {
	if !mounts(t) {
		return
	}
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range map[string]struct {
		says   string
		before func(logs, folder string)
		while  func(logs string)
	}{
		"full": {"no space left", func(logs, _ string) { small(t, logs, 8) }, nil},
		"read-only": {"read-only file system", func(logs, _ string) {
			small(t, logs, 8)
			try(unix.Mount("", logs, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		}, nil},
		"a file":       {"not a directory", func(logs, _ string) { try(os.WriteFile(logs, nil, 0o600)) }, nil},
		"a FIFO":       {"not a directory", func(logs, _ string) { try(unix.Mkfifo(logs, 0o600)) }, nil},
		"a link":       {"", func(logs, _ string) { try(os.Mkdir(logs+"2", 0o700)); try(os.Symlink(logs+"2", logs)) }, nil},
		"a loose link": {"file exists", func(logs, _ string) { try(os.Symlink(logs+"2", logs)) }, nil},
		"a file is a link": {"too many levels of symbolic links", func(_, folder string) {
			try(os.MkdirAll(folder, 0o700))
			try(os.Symlink("/dev/null", filepath.Join(folder, session.TranscriptName)))
		}, nil},
		"a file is a FIFO without a reader": {"not a regular file", func(_, folder string) {
			try(os.MkdirAll(folder, 0o700))
			for _, file := range []string{session.TranscriptName, session.CastName, session.EventsName} {
				try(unix.Mkfifo(filepath.Join(folder, file), 0o600))
				fd, err := unix.Open(filepath.Join(folder, file), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
				try(err)
				t.Cleanup(func() { unix.Close(fd) })
			}
		}, nil},
		"removed": {"was removed|no such file", nil, func(logs string) { try(os.RemoveAll(logs)) }},
	} {
		for _, backend := range []session.Backend{session.Subprocess, session.Tmux} {
			m := tmuxManager(t)
			s := inTmux(numbers)
			s.Backend, s.LogFolder = backend, filepath.Join(t.TempDir(), "logs")
			if row.before != nil {
				row.before(s.LogFolder, filepath.Join(s.LogFolder, s.ID))
			}
			info := spawn(t, m, s)
			until(t, info, "2000\r\n")
			if row.while != nil {
				row.while(s.LogFolder)
			}
			ask(t, info, session.Request{Op: session.OpInput, Data: []byte("x\n")})
			text, info := all(t, m, s.ID, session.Output)
			if !isNumbers(text) || info.Reason != session.Exited || *info.ExitCode != 4 || !regexp.MustCompile(row.says).MatchString(info.LogError) || (row.says == "") != (info.LogError == "") {
				t.Errorf("%s, %s: %d bytes, %+v", name, backend, len(text), info.State)
			}
			said, err := os.ReadFile(string(info.Folder) + "/keeper.log")
			if reported := strings.Count(string(said), "log of the session"); err != nil || row.says == "" && reported != 0 || row.says != "" && reported != 1 {
				t.Errorf("%s, %s: %q: %v", name, backend, said, err)
			}
			if _, err := os.Stat(s.LogFolder); row.while != nil && err == nil {
				t.Errorf("%s, %s: a removed folder exists again", name, backend)
			}
			if row.says != "" {
				continue
			}
			if transcript, err := os.ReadFile(filepath.Join(s.LogFolder, s.ID, session.TranscriptName)); err != nil || string(transcript) != text {
				t.Errorf("%s, %s: the transcript has %d bytes of %d: %v", name, backend, len(transcript), len(text), err)
			}
		}
	}
}

// TestDiskBecomesFull checks that a running session continues on a full disk and records its end. A
// new session must fail and leave no files and no processes.
func TestDiskBecomesFull(t *testing.T) {
	if !mounts(t) {
		return
	}
	for _, backend := range []session.Backend{session.Subprocess, session.Tmux} {
		m := tmuxManager(t)
		small(t, m.Root, 4<<10)
		s := inTmux(numbers)
		s.Backend, s.LogFolder, s.OutputBytes = backend, m.Root+"/logs", 256<<10
		info := spawn(t, m, s)
		until(t, info, "2000\r\n")
		fill(t, m.Root, 0)
		for n := 1; n <= 5; n++ { // each new size must be recorded
			ask(t, info, session.Request{Op: session.OpResize, Cols: 100 + n, Rows: 50})
			if now := after(t, m, s.ID); now.Size.Cols != 100+n {
				t.Errorf("%s: %+v", backend, now.State)
			}
		}
		another := inTmux("true")
		another.Backend, another.Name = backend, "another"
		if _, err := m.Spawn(t.Context(), another, 20); fault.KindOf(err) != fault.Exhausted || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: another session on a full disk: %v", backend, err)
		}
		checkNothingLeft(t, m, another)
		ask(t, info, session.Request{Op: session.OpInput, Data: []byte("x\n")})
		text, now := all(t, m, s.ID, session.Output)
		if !isNumbers(text) || now.Running() || now.Reason != session.Exited || now.ExitCode == nil || *now.ExitCode != 4 || now.LogError == "" {
			t.Errorf("%s: %d bytes, %+v", backend, len(text), now.State)
		}
		if err := os.Remove(m.Root + "/filler"); err != nil {
			t.Fatal(err)
		}
		spawn(t, m, another)
		nothingLeft(t, m)
	}
}

// checkNothingLeft checks that a rejected session left no folder and no process.
func checkNothingLeft(t *testing.T, m *session.Manager, s session.Spec) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(m.Root, s.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("leftover folder: %v", err)
	}
	var left []int
	for deadline := time.Now().Add(testenv.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		left = nil
		for _, pid := range processes() {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), s.ID) {
				left = append(left, pid)
			}
		}
		if left = append(left, marked(s.ID)...); len(left) == 0 {
			return
		}
	}
	t.Errorf("left %v", left)
}

// TestSpawnsWithLittleSpace starts sessions on an almost full disk, each with 4 KiB more free
// space, until one succeeds. Each failed start must leave no files and no processes.
func TestSpawnsWithLittleSpace(t *testing.T) {
	if !mounts(t) {
		return
	}
	for _, backend := range []session.Backend{session.Subprocess, session.Tmux} {
		m := tmuxManager(t)
		small(t, m.Root, 256)
		refused := 0
		for room := int64(0); ; room += 4 {
			if room > 128 {
				t.Fatalf("%s: it is refused with %d KiB", backend, room)
			}
			fill(t, m.Root, room)
			s := inTmux("exec sleep 1000")
			s.Backend, s.OutputBytes = backend, 8<<10
			_, err := m.Spawn(t.Context(), s, 20)
			if err == nil {
				break
			}
			refused++
			if fault.KindOf(err) != fault.Exhausted || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: with %d KiB: %v", backend, room, err)
			}
			checkNothingLeft(t, m, s)
			if all, err := m.List(); err != nil || len(all) > 0 {
				t.Errorf("%s: with %d KiB: %v, %v", backend, room, all, err)
			}
		}
		if t.Logf("%s: refused %d times", backend, refused); refused < 4 {
			t.Errorf("%s: refused %d times only", backend, refused)
		}
		nothingLeft(t, m)
	}
}

// TestReadOnlyState checks that calls on a read-only file system return clear errors. It also
// checks that the session continues when the file system is writable again.
func TestReadOnlyState(t *testing.T) {
	if !mounts(t) {
		return
	}
	m := tmuxManager(t)
	s := inTmux("while read -r x; do echo got $x; done")
	s.Backend = session.Subprocess
	info := spawn(t, m, s)
	if err := errors.Join(unix.Mount(m.Root, m.Root, "", unix.MS_BIND, ""), unix.Mount("", m.Root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	for _, backend := range []session.Backend{session.Subprocess, session.Tmux} {
		another := inTmux("true")
		another.Backend, another.Name = backend, "another"
		_, err := m.Spawn(t.Context(), another, 20)
		if err == nil || !strings.Contains(err.Error(), "read-only file system") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", backend, err)
		}
		checkNothingLeft(t, m, another)
	}
	if err := m.Attach(context.Background(), s.ID, "client"); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("a claim that can't be written: %v", err)
	}
	if err := unix.Unmount(m.Root, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	ask(t, info, session.Request{Op: session.OpInput, Data: []byte("x\n")})
	until(t, info, "got x")
}
