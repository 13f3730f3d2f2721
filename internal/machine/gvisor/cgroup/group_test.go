package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

var limits = Limits{MemoryBytes: 64 << 20, CPUs: 2, Processes: 100}

func newV2(t *testing.T, control string) (*tree, *Parent) {
	t.Helper()
	r := newTree(t, "0::/a/b\n", unified, group("/cg/a", control, group("/cg/a/b", "")))
	return r, find(t, r)
}

func newV1(t *testing.T) (*tree, *Parent) {
	t.Helper()
	r := newTree(t, inTrees, trees, v1Files())
	return r, find(t, r)
}

func find(t *testing.T, r *tree) *Parent {
	t.Helper()
	p, err := r.host.find()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMakeV2(t *testing.T) {
	r, p := newV2(t, "cpu memory pids")
	g, err := p.Make("m", limits)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"memory.max 67108864", "memory.swap.max 0", "memory.oom.group 1", "cpu.max 200000 100000", "pids.max 100"}
	if !slices.Equal(r.kernel.wrote, want) {
		t.Errorf("wrote %q", r.kernel.wrote)
	}
	var attr syscall.SysProcAttr
	g.Attr(&attr)
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(attr.CgroupFD))
	if err != nil || !attr.UseCgroupFD || path != r.path("/cg/a/pyro-m") {
		t.Errorf("got %q, %v", path, err)
	}
	if err := g.Add(os.Getpid()); err != nil || len(r.kernel.wrote) != len(want) {
		t.Errorf("got %v, wrote %q", err, r.kernel.wrote)
	}
	if g.OutOfMemory() {
		t.Error("nothing was killed yet")
	}
	r.put("/cg/a/pyro-m/memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n")
	if !g.OutOfMemory() {
		t.Error("something was killed")
	}
	r.put("/cg/a/pyro-m/cgroup.procs", "busy\n") // busy until Close kills it
	for range 2 {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(r.kernel.wrote[len(want):], []string{"cgroup.kill 1"}) || exists(r.path("/cg/a/pyro-m")) {
		t.Errorf("wrote %q", r.kernel.wrote)
	}
	if !g.OutOfMemory() {
		t.Error("Close must not forget it")
	}
}

func TestMakeV1(t *testing.T) {
	r, p := newV1(t)
	r.kernel.failing = map[string]error{"cpu.cfs_quota_us 200000": unix.EINVAL} // the parent group has a lower limit
	g, err := p.Make("m", limits)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"memory.limit_in_bytes 67108864", "memory.memsw.limit_in_bytes 67108864", "cpu.cfs_period_us 100000", "pids.max 100"}
	if !slices.Equal(r.kernel.wrote, want) {
		t.Errorf("wrote %q", r.kernel.wrote)
	}
	var attr syscall.SysProcAttr
	if g.Attr(&attr); attr.UseCgroupFD {
		t.Error("version 1 can't start a process in a group")
	}
	folders := []string{"/cg/memory/a/pyro-m", "/cg/cpu,cpuacct/b/pyro-m", "/cg/pids/pyro-m"}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	for _, f := range folders {
		if got := r.get(f + "/cgroup.procs"); got != strconv.Itoa(cmd.Process.Pid) {
			t.Errorf("%s: got %q", f, got)
		}
	}
	r.put(folders[0]+"/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
	if !g.OutOfMemory() {
		t.Error("something was killed")
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	for _, f := range folders {
		if exists(r.path(f)) {
			t.Error(f, "it still exists")
		}
	}
	if !slices.Contains(r.kernel.wrote, "pids.max 0") {
		t.Error("got no pids.max of 0, so killed processes can still fork")
	}
}

func TestMakeWithFewerControllers(t *testing.T) {
	for name, c := range map[string]struct {
		control string
		limits  Limits
		absent  []string
		want    []string
	}{
		"missing controllers": {"memory", limits, nil, []string{"memory.max 67108864", "memory.swap.max 0", "memory.oom.group 1"}},
		"no limits":           {"memory cpu pids", Limits{}, nil, nil},
		"as many processors":  {"memory cpu pids", Limits{CPUs: 4}, nil, nil},
		"no swap": {
			"memory cpu pids", Limits{MemoryBytes: 4096, Processes: 1}, []string{"memory.swap.max"},
			[]string{"memory.max 4096", "memory.oom.group 1", "pids.max 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newV2(t, c.control)
			r.kernel.absent = c.absent
			g, err := p.Make("m", c.limits)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			if !slices.Equal(r.kernel.wrote, c.want) {
				t.Errorf("wrote %q", r.kernel.wrote)
			}
		})
	}
}

func TestMakeIsAllOrNothing(t *testing.T) {
	r, p := newV2(t, "cpu memory pids")
	r.kernel.failing = map[string]error{"pids.max 100": unix.EINVAL}
	if g, err := p.Make("m", limits); g != nil || !errors.Is(err, unix.EINVAL) || exists(r.path("/cg/a/pyro-m")) {
		t.Errorf("got %v", err)
	}
	r, p = newV1(t)
	if err := os.Mkdir(r.path("/cg/pids/pyro-m"), 0o700); err != nil {
		t.Fatal(err)
	}
	g, err := p.Make("m", limits)
	if g != nil || fault.KindOf(err) != fault.Exists || exists(r.path("/cg/memory/a/pyro-m")) || !exists(r.path("/cg/pids/pyro-m")) {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"", "a/b", "a\nb", strings.Repeat("a", 201)} {
		if _, err := p.Make(bad, limits); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestMakeInJointHierarchy(t *testing.T) {
	r := newTree(t, "2:pids,memory,cpu:/a\n", "31 1 0:3 / @/cg/memory rw - cgroup cgroup rw,cpu,memory,pids\n", v1Files())
	for _, name := range []string{"pids.max", "cpu.cfs_period_us", "cpu.cfs_quota_us"} {
		r.put("/cg/memory/a/"+name, "")
	}
	g, err := find(t, r).Make("m", limits)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.get("/cg/memory/a/pyro-m/pids.max"); got != "100" {
		t.Errorf("got %q", got)
	}
	if err := g.Close(); err != nil || exists(r.path("/cg/memory/a/pyro-m")) {
		t.Error(err)
	}
}

// TestCloseKillsFirst checks that Close also kills the processes of a group that can't be removed.
func TestCloseKillsFirst(t *testing.T) {
	r, p := newV2(t, "memory")
	g, err := p.Make("m", limits)
	if err != nil {
		t.Fatal(err)
	}
	r.kernel.failing = map[string]error{"rmdir": unix.EACCES}
	if err := g.Close(); fault.KindOf(err) != fault.Permission || !slices.Contains(r.kernel.wrote, "cgroup.kill 1") {
		t.Errorf("got %v, wrote %q", err, r.kernel.wrote)
	}
	r.kernel.failing = nil
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseWithoutCgroupKill uses a kernel before Linux 5.14, which has no cgroup.kill.
func TestCloseWithoutCgroupKill(t *testing.T) {
	r, p := newV2(t, "memory")
	r.kernel.absent = []string{"cgroup.kill"}
	g, err := p.Make("m", limits)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	r.put("/cg/a/pyro-m/cgroup.procs", "0\n"+strconv.Itoa(cmd.Process.Pid)+"\n")
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newV1(t)
		g, err := p.Make("m", limits)
		if err != nil {
			t.Fatal(err)
		}
		r.put("/cg/memory/a/pyro-m/cgroup.procs", "busy\n")
		begin := time.Now()
		if err := g.Close(); fault.KindOf(err) != fault.Timeout || !errors.Is(err, unix.EBUSY) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(begin); d < closeTimeout || d > 2*closeTimeout {
			t.Errorf("took %s", d)
		}
		if exists(r.path("/cg/pids/pyro-m")) {
			t.Error("a removable cgroup still exists")
		}
		r.put("/cg/memory/a/pyro-m/cgroup.procs", "")
		if err := g.Close(); err != nil || exists(r.path("/cg/memory/a/pyro-m")) {
			t.Errorf("got %v", err)
		}
	})
}

func TestSweep(t *testing.T) {
	r, p := newV1(t)
	old := time.Now().Add(-2 * staleAfter)
	add := func(path string, modified time.Time) {
		if err := r.kernel.mkdir(r.path(path)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(r.path(path), modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"/cg/memory/a/pyro-old", "/cg/pids/pyro-old", "/cg/cpu,cpuacct/b/pyro-other", "/cg/memory/a/pyro-full",
		"/cg/memory/a/theirs",
	} {
		add(name, old)
	}
	add("/cg/memory/a/pyro-young", time.Now())
	r.put("/cg/memory/a/pyro-full/cgroup.procs", "busy\n")
	g, err := p.Make("held", limits)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range g.folders {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	p.Sweep()
	for name, want := range map[string]bool{
		"/cg/memory/a/pyro-old": false, "/cg/pids/pyro-old": false, "/cg/cpu,cpuacct/b/pyro-other": false, "/cg/memory/a/pyro-full": true,
		"/cg/memory/a/pyro-young": true, "/cg/memory/a/theirs": true, "/cg/memory/a/pyro-held": true, "/cg/pids/pyro-held": true,
	} {
		if exists(r.path(name)) != want {
			t.Errorf("%s: exists must be %v", name, want)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(filepath.Clean(path))
	return err == nil
}

func TestAddRefuses(t *testing.T) {
	r, p := newV1(t)
	g, err := p.Make("m", limits)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{0, -1} {
		if err := g.Add(pid); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%d: got %v", pid, err)
		}
	}
	r.kernel.failing = map[string]error{"cgroup.procs 7": unix.ESRCH}
	if err := g.Add(7); !errors.Is(err, unix.ESRCH) {
		t.Errorf("got %v", err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := g.Add(os.Getpid()); fault.KindOf(err) != fault.Precondition {
		t.Errorf("got %v", err)
	}
}
