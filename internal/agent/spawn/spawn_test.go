package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

var limits = OpenFiles{Cur: 321, Max: 654}

// run runs a shell command line and returns its output and exit status.
func run(t *testing.T, line string, change func(*os.ProcAttr)) (string, syscall.WaitStatus) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	attr := &os.ProcAttr{Env: []string{"PATH=/usr/bin:/bin", "OWN=yes"}, Files: []*os.File{null, w, w}, Sys: &syscall.SysProcAttr{}}
	if change != nil {
		change(attr)
	}
	p, err := Start("/bin/sh", []string{"sh", "-c", line}, attr, limits)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), status
}

func TestProcessAttributes(t *testing.T) {
	// The process must not inherit this signal handler or the signal mask.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGUSR1)
	defer signal.Stop(ignored)
	dir := t.TempDir()
	for _, c := range []struct {
		line, want string
		change     func(*os.ProcAttr)
	}{
		{"echo $OWN $0 $PPID", fmt.Sprintf("yes sh %d", os.Getpid()), nil},
		{"pwd", dir, func(a *os.ProcAttr) { a.Dir = dir }},
		{"ulimit -n; ulimit -Hn", "321\n654", nil},
		{"cat /proc/self/status | grep -E 'Sig(Blk|Cgt)'", "SigBlk:\t0000000000000000\nSigCgt:\t0000000000000000", nil},
		{"test $(cut -d' ' -f 6 /proc/$$/stat) = $$ && echo leader", "leader", func(a *os.ProcAttr) { a.Sys.Setsid = true }},
		{"readlink /proc/self/fd/0; cat <&0 | wc -c", "/dev/null\n0", nil},
	} {
		if got, status := run(t, c.line, c.change); got != c.want || status.ExitStatus() > 1 {
			t.Errorf("%s: %q, %v", c.line, got, status)
		}
	}
}

func TestUser(t *testing.T) {
	testenv.NeedsRoot(t, "become another user")
	got, _ := run(t, "id -u; id -g; id -G", func(a *os.ProcAttr) {
		a.Sys.Credential = &syscall.Credential{Uid: 65534, Gid: 65533, Groups: []uint32{7, 8}}
	})
	if got != "65534\n65533\n65533 7 8" {
		t.Errorf("got %q", got)
	}
}

func TestProcessExit(t *testing.T) {
	if _, status := run(t, "exit 7", nil); status.ExitStatus() != 7 {
		t.Errorf("%v", status)
	}
	if _, status := run(t, "kill -9 $$", nil); status.Signal() != syscall.SIGKILL {
		t.Errorf("%v", status)
	}
}

// TestStartErrors checks that errors come from the kernel, and that failed starts leak
// nothing.
func TestStartErrors(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	files := []*os.File{null, null, null}
	before := descriptors(t)
	for path, want := range map[string]error{"/no/such/program": fs.ErrNotExist, "/etc": fs.ErrPermission, "/etc/passwd": fs.ErrPermission} {
		if _, err := Start(path, []string{"x"}, &os.ProcAttr{Files: files, Sys: &syscall.SysProcAttr{}}, limits); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Start("/bin/true", []string{"true"}, &os.ProcAttr{Dir: "/no/such", Files: files, Sys: &syscall.SysProcAttr{}}, limits); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing folder: got %v", err)
	}
	if _, err := Start("/bin/true", []string{"true"}, &os.ProcAttr{Files: []*os.File{os.Stdin, null, null}, Sys: &syscall.SysProcAttr{}}, limits); err == nil {
		t.Error("a file that would be overwritten was accepted")
	}
	if _, err := Start("/bin/tr\x00ue", nil, &os.ProcAttr{Sys: &syscall.SysProcAttr{}}, limits); err == nil {
		t.Error("a path with a zero byte was accepted")
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("leftover child: %d, %v", pid, err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d leftover descriptors", after-before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestConcurrentStarts starts processes concurrently, during garbage collections and signals.
func TestConcurrentStarts(t *testing.T) {
	got := make(chan os.Signal, 100)
	signal.Notify(got, syscall.SIGUSR2)
	defer signal.Stop(got)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				syscall.Kill(os.Getpid(), syscall.SIGUSR2)
				_ = bytes.Repeat([]byte{1}, 1<<20)
				if out, status := run(t, fmt.Sprintf("echo %d; exit %d", i, i%3), nil); out != fmt.Sprint(i) || status.ExitStatus() != i%3 {
					t.Errorf("%q, %v", out, status)
				}
			}
		})
	}
	wg.Wait()
}

func TestPIDInNamespace(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Start("/bin/sh", []string{"sh", "-c", "echo $$"}, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{r, w, w}, Sys: &syscall.SysProcAttr{}}, OpenFiles{Cur: 64, Max: 64})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(r)
	if _, waited := p.Wait(); err != nil || waited != nil || strings.TrimSpace(string(said)) != strconv.Itoa(p.NamespacePID()) {
		t.Errorf("it says %q, and is %d: %v %v", said, p.NamespacePID(), err, waited)
	}
}
