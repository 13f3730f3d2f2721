package machinetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
)

// isolated checks whether processes inside see files and processes of the host, as the feature
// Isolated says.
func (s suite) isolated(t *testing.T) {
	g := s.renewed(t, usual)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("86400.%d", time.Now().UnixNano())
	host := exec.Command("sleep", mark)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		host.Process.Kill()
		host.Wait()
	}()
	isolated := s.driver.Features().Isolated
	seen, _, err := g.exec(0, "/bin/sh", "-c", `cat "$1"`, "sh", secret)
	if err != nil || (seen == "") != isolated {
		t.Errorf("Isolated is %t, and a file of the host reads %q, %v", isolated, seen, err)
	}
	// The shell joins the two parts of the mark. So the mark is not in the shell's command line,
	// and the search does not find itself.
	const search = `m=$1$2; n=0; for p in /proc/[0-9]*; do case $(tr '\0' ' ' 2>/dev/null <$p/cmdline) in *$m*) n=$((n+1)) ;; esac; done; echo $n`
	seen, _, err = g.exec(0, "/bin/sh", "-c", search, "sh", mark[:8], mark[8:])
	if err != nil || (strings.TrimSpace(seen) == "0") != isolated {
		t.Errorf("Isolated is %t, and %q processes of the host are seen, %v", isolated, seen, err)
	}
}

// kernel checks the features OwnKernel and MemorySnapshot: whether the machine has its own kernel,
// and whether machines are copies of a machine that booted earlier.
func (s suite) kernel(t *testing.T) {
	const bootID = "/proc/sys/kernel/random/boot_id"
	b, err := os.ReadFile(bootID)
	if err != nil {
		t.Fatal(err)
	}
	f := s.driver.Features()
	g := s.renewed(t, usual)
	inside := g.shell(t, "cat "+bootID)
	if (inside != strings.TrimSpace(string(b))) != f.OwnKernel {
		t.Errorf("OwnKernel is %t; boot id inside %s, of the host %s", f.OwnKernel, inside, b)
	}
	// A process can be older than the start of its machine only if the machine is a copy of a
	// running machine.
	began := time.Now()
	older := s.renewed(t, usual).shell(t, "cut -d' ' -f 1 /proc/uptime; cut -d' ' -f 22 /proc/1/stat")
	elapsed := time.Since(began).Seconds()
	var uptime, started float64
	if _, err := fmt.Sscan(older, &uptime, &started); err != nil {
		t.Fatalf("%q: %v", older, err)
	}
	if age := uptime - started/100; f.Isolated && (age > elapsed) != f.MemorySnapshot {
		t.Errorf("MemorySnapshot is %t; process 1 is %.2f s old, its machine at most %.2f s", f.MemorySnapshot, age, elapsed)
	}
}

// identity checks that two concurrent machines have different identities and correct clocks.
func (s suite) identity(t *testing.T) {
	var random, names, ids []string
	for range 2 {
		g := s.renewed(t, usual)
		sent := time.Now()
		clock, err := strconv.ParseFloat(g.shell(t, "date +%s.%N"), 64)
		if err != nil {
			t.Fatal(err)
		}
		early, late := float64(sent.Add(-time.Second-g.renewal).UnixNano())/1e9, float64(time.Now().Add(time.Second).UnixNano())/1e9
		if clock < early || clock > late {
			t.Errorf("clock: got %f, want between %f and %f", clock, early, late)
		}
		random = append(random, g.shell(t, "head -c 32 /dev/urandom | od -An -tx1"))
		id, name := g.shell(t, "cat /etc/machine-id || test ! -e /etc/machine-id"), g.shell(t, "uname -n") // a minimal host has no machine-id
		if s.driver.Features().Isolated && (id != g.identity.MachineID || name != g.identity.Hostname || g.shell(t, "cat /etc/hostname") != name) {
			t.Errorf("machine-id %s, host name %s; it was given %+v", id, name, g.identity)
		}
		names, ids = append(names, name), append(ids, id)
	}
	if random[0] == random[1] {
		t.Error("two machines have the same random numbers:", random[0])
	}
	if isolated := s.driver.Features().Isolated; (names[0] != names[1]) != isolated || (ids[0] != ids[1]) != isolated {
		t.Errorf("two machines have the host names %q and the IDs %q", names, ids)
	}
}

// disk checks that a machine does not see the changes that another machine made.
func (s suite) disk(t *testing.T) {
	if !s.driver.Features().Isolated {
		t.Skip("its machines have no disk of their own")
	}
	first := s.renewed(t, usual)
	first.shell(t, "echo mine >/etc/mine && rm /etc/passwd && sync")
	second := s.renewed(t, usual)
	if out := second.shell(t, "cat /etc/passwd >/dev/null; ls /etc/mine 2>/dev/null || echo gone"); out != "gone" {
		t.Errorf("changes of the first machine in the second: got %q", out)
	}
}

// limits checks that a machine has the processors and memory of its spec, or that Limits says why
// not.
func (s suite) limits(t *testing.T) {
	if !s.driver.Features().Limits {
		if err := s.renewed(t, usual).Limits(); err == nil || err.Error() == "" {
			t.Error("its machines have no bounds, and do not say why")
		}
		t.Skip("its machines have no bounds")
	}
	for _, sh := range []shape{usual, other} {
		g := s.renewed(t, sh)
		if err := g.Limits(); err != nil {
			t.Errorf("Limits is true, but %v", err)
		}
		if n := g.shell(t, "nproc"); n != strconv.Itoa(sh.vcpus) {
			t.Errorf("want %d processors, got %s", sh.vcpus, n)
		}
		kib, err := strconv.Atoi(g.shell(t, `while read name size unit; do [ "$name" = MemTotal: ] && echo $size; done </proc/meminfo; :`))
		if err != nil || kib > sh.memMiB<<10 || kib < sh.memMiB<<10*6/10 {
			t.Errorf("want %d MiB, got %d KiB, %v", sh.memMiB, kib, err)
		}
	}
}

// outOfMemory checks that a process is killed if it uses all memory. If the machine has no OOM
// killer, the machine must end and report the reason.
func (s suite) outOfMemory(t *testing.T) {
	if !s.driver.Features().Limits {
		t.Skip("its machines have no bounds")
	}
	g := s.renewed(t, other)
	_, end, err := g.exec(0, "/bin/sh", "-c", "tail /dev/zero")
	if !s.driver.Features().OOMKiller {
		g.ended(t)
		if reason := g.Err(); err == nil || !errors.Is(reason, machine.ErrOutOfMemory) || fault.KindOf(reason) != fault.Exhausted {
			t.Errorf("%+v, %v; the machine: %v", end, err, reason)
		}
		return
	}
	if err != nil {
		g.until(t, func() bool { return g.Err() != nil })
		t.Fatal(err, g.Err())
	}
	if err != nil || end.Code == 0 || !end.OutOfMemory {
		t.Fatalf("%+v, %v; the machine: %v", end, err, g.reason())
	}
	g.answers(t)
}

// forkBomb checks that the number of processes of a fork bomb is limited, and that the processes
// can be killed.
func (s suite) forkBomb(t *testing.T) {
	if !s.driver.Features().Limits {
		t.Skip("its machines have no bounds")
	}
	g := s.renewed(t, other)
	began := time.Now()
	_, end, err := g.exec(5*time.Second, "/bin/sh", "-c", "b() { b | b & b; }; b & exec sleep 1000")
	if err != nil || !end.TimedOut && end.Code == 0 {
		t.Fatalf("%+v, %v; the machine: %v", end, err, g.reason())
	}
	g.answers(t)
	if took := time.Since(began); took > patience {
		t.Errorf("a limit of 5 s ended the command after %v", took)
	}
	if !end.TimedOut {
		return // the kernel killed the command itself, and its other processes continue, as after any command
	}
	// All processes are killed by now, but on a busy host they take a while to exit.
	g.until(t, func() bool { return len(g.shell(t, "set -- /proc/[0-9]*; echo $#")) < 3 })
}

// processor checks that a machine does not use more of the host's processors than its spec allows.
func (s suite) processor(t *testing.T) {
	if !s.driver.Features().Limits || runtime.NumCPU() < 2 {
		t.Skip("the driver has no limits, or the host has one processor")
	}
	g := s.renewed(t, usual)
	time.Sleep(time.Second) // a start may use more processors than the spec allows
	// The script runs two loops at the same time on one processor.
	const loops = `for i in 1 2; do (timeout 2 sh -c 'while :; do :; done'; :) & done; wait`
	began := time.Now()
	before := usage(t, g.PID())
	g.shell(t, loops)
	if used, took := usage(t, g.PID())-before, time.Since(began); used > took*3/2 {
		t.Errorf("a machine with one processor used %v in %v", used, took)
	}
}

// usage returns the processor time that a process on the host and its descendants have used.
func usage(t *testing.T, pid int) (total time.Duration) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, own := map[int]int{}, map[int]time.Duration{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parents[id], _ = strconv.Atoi(f[1])
		for _, ticks := range f[11:15] { // the process's own times, and the times of its reaped children
			n, _ := strconv.Atoi(ticks)
			own[id] += time.Duration(n) * 10 * time.Millisecond
		}
	}
	for id, used := range own {
		for at := id; at > 1; at = parents[at] {
			if at == pid {
				total += used
				break
			}
		}
	}
	return total
}

// setUID checks whether a program with the setuid bit runs as its owner, as the feature SetUID
// says.
func (s suite) setUID(t *testing.T) {
	f := s.driver.Features()
	if !f.Isolated {
		t.Skip("this would make a setuid program on the host")
	}
	g := s.renewed(t, usual)
	g.shell(t, "cp /usr/bin/id /usr/local/bin/whose && chmod u+s /usr/local/bin/whose")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out strings.Builder
	end, err := g.agent.Exec(ctx, program.Command{Argv: []string{"/usr/local/bin/whose", "-u"}, User: "nobody", Cwd: "/"}, program.Attach{Stdout: &out})
	if err != nil || end.Code != 0 || (strings.TrimSpace(out.String()) == "0") != f.SetUID {
		t.Errorf("SetUID is %t; the set-uid program printed %q, %+v, %v", f.SetUID, out.String(), end, err)
	}
}

// containers checks whether containers work inside, as the feature Containers says. It makes the
// namespaces and mounts of a container.
func (s suite) containers(t *testing.T) {
	f := s.driver.Features()
	if !f.Isolated {
		t.Skip("this would make mounts on the host")
	}
	g := s.renewed(t, usual)
	const container = `set -e; cd "$(mktemp -d)"; mount -t tmpfs tmpfs "$PWD"; cd "$PWD"; mkdir usr proc old etc; ln -s usr/bin usr/lib usr/lib64 .
mount --rbind /usr usr; mount -t proc proc proc; pivot_root . old; umount -l /old
echo inside >/etc/container; test $$ = 1; test ! -e /root; cat /etc/container`
	out, end, err := g.exec(0, "unshare", "-Umpf", "--map-root-user", "/bin/sh", "-c", container)
	if works := strings.TrimSpace(out) == "inside"; err != nil || works != f.Containers {
		t.Errorf("Containers is %t; one says %q, %+v, %v", f.Containers, out, end, err)
	}
	if out := g.shell(t, "ls /etc/container 2>/dev/null || echo gone"); out != "gone" {
		t.Errorf("a container wrote to the machine's root: %s", out)
	}
}

// killEverything checks that the agent survives if a user kills all processes.
func (s suite) killEverything(t *testing.T) {
	if !s.driver.Features().Namespaces {
		t.Skip("this would kill processes of the host")
	}
	g := s.renewed(t, usual)
	for range 2 {
		if _, _, err := g.exec(0, "/bin/sh", "-c", "kill -9 -1"); err != nil {
			t.Error(err)
		}
		if out := g.shell(t, "echo alive"); out != "alive" {
			t.Errorf("got %q", out)
		}
	}
	// The agent also survives signals to PID 1 of the namespace.
	if _, _, err := g.exec(0, "/bin/sh", "-c", "kill -9 1; kill -TERM 1; kill -INT 1; true"); err != nil {
		t.Error(err)
	}
	g.answers(t)
	g.shell(t, "true")
}

// deleteEverything checks that the agent survives if a user deletes all files.
func (s suite) deleteEverything(t *testing.T) {
	if !s.driver.Features().Namespaces {
		t.Skip("this would delete files of the host")
	}
	g := s.renewed(t, usual)
	if _, _, err := g.exec(0, "rm", "-rf", "--no-preserve-root", "/"); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if f, err := g.agent.Stat(ctx, "/bin/sh"); err == nil {
		t.Errorf("rm left %+v", f)
	}
	if _, end, err := g.exec(0, "true"); err != nil || end.NotRun == "" || end.Code != 127 {
		t.Errorf("a command that is gone: %+v, %v", end, err)
	}
	g.answers(t)
}
