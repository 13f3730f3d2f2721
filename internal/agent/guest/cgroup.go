package guest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
)

// All user processes share one cgroup. Its limits leave enough resources for the agent. To the
// scheduler, the group has the same weight as the agent. Each exec has a cgroup below the shared
// one. Killing that cgroup kills all processes that the exec has started.
const (
	userGroup = "user"
	// maxProcesses limits the processes and threads of a machine. The number is larger than any
	// workload needs, and small enough for the kernel to keep working.
	maxProcesses = 4096
	// processMemory is the amount of memory, in bytes, that a machine needs for each process in its
	// limit. If thousands of processes exhaust the memory, the kernel spends all its time on the
	// search for processes to kill. A gVisor sandbox, which has two host processes for each of its
	// own, then stops. Killing all of them takes time, too.
	processMemory = 1 << 20
	// reserve is the memory for the agent and the kernel, in bytes. Processes can't use it.
	reserve = 48 << 20
)

// maxFree is the maximum number of empty cgroups that are stored for later execs. Creating a cgroup
// takes longer than starting a process.
const maxFree = 4

// groups manages the cgroups of execs.
type groups struct {
	path  string   // path of the shared cgroup
	kills *os.File // memory.events of the shared cgroup
	max   string   // maximum number of processes and threads of one exec

	mu   sync.Mutex
	made int
	free []*cgroup // empty cgroups
	left []*cgroup // released cgroups that might still have members
}

// cgroup is the cgroup of one exec.
type cgroup struct {
	path   string
	dir    *os.File
	events *os.File
	holder *group // nil if no exec uses the cgroup
	killed bool   // its members can't start processes
}

// newGroups creates the shared cgroup below root. limit is the maximum number of its processes and
// threads; 0 selects maxProcesses.
func newGroups(root string, limit int64) (*groups, error) {
	g := &groups{path: filepath.Join(root, userGroup)}
	// With the cpu controller, all user processes together have the weight of one agent thread. So
	// a thousand processes can't starve the agent.
	if err := put(filepath.Join(root, "cgroup.subtree_control"), "+cpu +memory +pids"); err != nil {
		return nil, err
	}
	if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	total, err := memoryTotal()
	if err != nil {
		return nil, err
	}
	memory := total - min(reserve, total/4)
	if err := put(filepath.Join(g.path, "memory.max"), strconv.FormatInt(memory, 10)); err != nil {
		return nil, err
	}
	processes := min(cmp.Or(limit, maxProcesses), memory/processMemory)
	if err := put(filepath.Join(g.path, "pids.max"), strconv.FormatInt(processes, 10)); err != nil {
		return nil, err
	}
	// With the cpu controller, all execs have the same weight, so that a new exec does not wait for
	// a thousand processes of another. With the pids controller, no exec can use up the process
	// limit of the machine.
	if err := put(filepath.Join(g.path, "cgroup.subtree_control"), "+cpu +pids"); err != nil {
		return nil, err
	}
	g.max = strconv.FormatInt(processes-processes/16, 10)
	if g.kills, err = os.Open(filepath.Join(g.path, "memory.events")); err != nil {
		return nil, err
	}
	return g, nil
}

// take returns an empty cgroup for an exec.
func (g *groups) take() (agent.Group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var c *cgroup
	if n := len(g.free); n > 0 {
		c, g.free = g.free[n-1], g.free[:n-1]
	} else {
		var err error
		if c, err = g.make(); err != nil {
			return nil, fmt.Errorf("make a cgroup: %w", err)
		}
	}
	c.holder = &group{groups: g, cgroup: c}
	c.holder.kills, _ = g.oomKills()
	return c.holder, nil
}

func (g *groups) make() (*cgroup, error) {
	g.made++
	c := &cgroup{path: filepath.Join(g.path, "exec-"+strconv.Itoa(g.made))}
	if err := os.Mkdir(c.path, 0o755); err != nil {
		return nil, err
	}
	err := put(filepath.Join(c.path, "pids.max"), g.max)
	var err1, err2 error
	c.dir, err1 = os.Open(c.path)
	c.events, err2 = os.Open(filepath.Join(c.path, "cgroup.events"))
	if err := errors.Join(err, err1, err2); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// empty reports whether the cgroup has no processes.
func (c *cgroup) empty() bool {
	b := make([]byte, 128)
	n, err := unix.Pread(int(c.events.Fd()), b, 0) // one read returns the whole file
	return err == nil && strings.Contains(string(b[:n]), "populated 0")
}

// kill kills the members. First it forbids them to start processes. A process that is just starting
// another one can get its signal before the child is a member. Such a child survives, and needs
// another call.
func (c *cgroup) kill() error {
	c.killed = true
	return errors.Join(put(filepath.Join(c.path, "pids.max"), "0"), put(filepath.Join(c.path, "cgroup.kill"), "1"))
}

// revive lets a new member start at most max processes and threads.
func (c *cgroup) revive(max string) error {
	if !c.killed {
		return nil
	}
	c.killed = false
	return put(filepath.Join(c.path, "pids.max"), max)
}

func (c *cgroup) remove() {
	c.dir.Close()
	c.events.Close()
	os.Remove(c.path)
}

// release returns a cgroup that an exec no longer needs. It removes or reuses all released cgroups
// that have become empty.
func (g *groups) release(c *cgroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = slices.DeleteFunc(append(g.left, c), func(c *cgroup) bool {
		if !c.empty() {
			return false
		}
		c.holder = nil
		if len(g.free) < maxFree && c.revive(g.max) == nil {
			g.free = append(g.free, c)
		} else {
			c.remove()
		}
		return true
	})
}

// freezeTimeout limits the wait for processes that the kernel can't stop immediately.
const freezeTimeout = 500 * time.Millisecond

// freeze stops all processes. It returns when no process runs, or after freezeTimeout.
func (g *groups) freeze() error {
	if err := put(filepath.Join(g.path, "cgroup.freeze"), "1"); err != nil {
		return err
	}
	events, err := os.Open(filepath.Join(g.path, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	b := make([]byte, 128)
	for began := time.Now(); time.Since(began) < freezeTimeout; {
		n, err := unix.Pread(int(events.Fd()), b, 0)
		if err != nil || strings.Contains(string(b[:n]), "frozen 1") {
			return err
		}
		changed := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(changed, int((freezeTimeout-time.Since(began)).Milliseconds())+1); err != nil && err != unix.EINTR {
			return err
		}
	}
	return nil
}

// thaw resumes the processes.
func (g *groups) thaw() error { return put(filepath.Join(g.path, "cgroup.freeze"), "0") }

// oomKills returns how many processes the kernel has killed because memory was exhausted.
func (g *groups) oomKills() (int, error) {
	b := make([]byte, 512) // larger than the file
	n, err := unix.Pread(int(g.kills.Fd()), b, 0)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b[:n])) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, nil
}

// group is a cgroup while one exec uses it.
type group struct {
	groups *groups
	cgroup *cgroup
	kills  int // OOM kills in the whole machine when the exec started
}

// Prepare makes the process start in the cgroup.
func (g *group) Prepare(attr *os.ProcAttr) {
	attr.Sys.UseCgroupFD = true
	attr.Sys.CgroupFD = int(g.cgroup.dir.Fd())
}

// Kill kills all members with one operation. In the background it kills members that survived
// because they were just starting.
func (g *group) Kill(int) error {
	left, err := g.kill()
	if left {
		go func() {
			for began, pause := time.Now(), minKillPause; left && time.Since(began) < killPatience; pause = min(2*pause, maxKillPause) {
				time.Sleep(pause)
				left, _ = g.kill()
			}
		}()
	}
	return err
}

// Times of Kill. A killed process can take long to exit if the host is busy.
const (
	minKillPause = 10 * time.Millisecond
	maxKillPause = time.Second
	killPatience = 2 * time.Minute
)

// kill kills the members. left reports whether there were members.
func (g *group) kill() (left bool, err error) {
	g.groups.mu.Lock()
	defer g.groups.mu.Unlock()
	if g.cgroup.holder != g || g.cgroup.empty() {
		return false, nil // another exec might use the cgroup now
	}
	return true, g.cgroup.kill()
}

// Members returns the PIDs of the members.
func (g *group) Members(int) (pids []int, err error) {
	g.groups.mu.Lock()
	defer g.groups.mu.Unlock()
	if g.cgroup.holder != g {
		return nil, nil
	}
	b, err := os.ReadFile(filepath.Join(g.cgroup.path, "cgroup.procs"))
	for line := range strings.Lines(string(b)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// OutOfMemory compares the number of OOM kills with their number at the start of the exec.
func (g *group) OutOfMemory() bool {
	kills, err := g.groups.oomKills()
	return err == nil && kills > g.kills
}

// Release returns the cgroup. Another exec can get it when it is empty.
func (g *group) Release() { g.groups.release(g.cgroup) }

func put(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func memoryTotal() (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, os.NewSyscallError("sysinfo", err)
	}
	return int64(info.Totalram) * int64(info.Unit), nil
}
