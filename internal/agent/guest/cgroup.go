package guest

import (
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

// The user's processes share one cgroup, which is bounded so that the agent stays able to work whatever they do: to the scheduler all of them together are
// one, as the agent is. Each exec has one below it, by which all that it started can be killed.
const (
	userGroup = "user"
	// maxProcesses bounds the processes and threads of a machine: far above what work needs, far below what stops the kernel.
	maxProcesses = 4096
	// processMemory is the memory that a machine must have for each process that it may have. If thousands run out of memory, a kernel looks for a victim
	// again and again, and nothing else goes on; a sandbox ends, in which each is also two processes of the host's. Ending them all takes time, too.
	processMemory = 1 << 20
	// maxSandboxProcesses is the most that a sandbox may have. The sentry allows those that the agent did not start a few less (runsc/tasks.go).
	maxSandboxProcesses = 2048
	// reserve is the memory that processes can't have: the agent's, and the kernel's own.
	reserve = 48 << 20
)

// maxFree bounds the empty cgroups that are kept for the next execs: to make one costs more than to start a process.
const maxFree = 4

// groups has the cgroups of execs.
type groups struct {
	path  string   // of the user's cgroup
	kills *os.File // its memory.events
	most  string   // processes and threads of one exec

	mu   sync.Mutex
	made int
	free []*cgroup // empty
	left []*cgroup // released, and perhaps still with members
}

// cgroup is one of them.
type cgroup struct {
	path   string
	dir    *os.File
	events *os.File
	holder *group // of whom it is now
}

func newGroups(root string, most int64) (*groups, error) {
	g := &groups{path: filepath.Join(root, userGroup)}
	// With cpu, all of the user's processes together weigh as much as one thread of the agent's, so that a thousand of them don't starve it.
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
	limit := total - min(reserve, total/4)
	if err := put(filepath.Join(g.path, "memory.max"), strconv.FormatInt(limit, 10)); err != nil {
		return nil, err
	}
	processes := min(most, limit/processMemory)
	if err := put(filepath.Join(g.path, "pids.max"), strconv.FormatInt(processes, 10)); err != nil {
		return nil, err
	}
	// With cpu, each exec weighs as much as any other, so that a new one does not wait for the thousand processes of another. With pids, no exec can take
	// what the next one needs.
	if err := put(filepath.Join(g.path, "cgroup.subtree_control"), "+cpu +pids"); err != nil {
		return nil, err
	}
	g.most = strconv.FormatInt(processes-processes/16, 10)
	if g.kills, err = os.Open(filepath.Join(g.path, "memory.events")); err != nil {
		return nil, err
	}
	return g, nil
}

// take gives an empty cgroup to an exec.
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
	err := put(filepath.Join(c.path, "pids.max"), g.most)
	var err1, err2 error
	c.dir, err1 = os.Open(c.path)
	c.events, err2 = os.Open(filepath.Join(c.path, "cgroup.events"))
	if err := errors.Join(err, err1, err2); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// empty tells whether nothing runs in it any more.
func (c *cgroup) empty() bool {
	b := make([]byte, 128)
	n, err := unix.Pread(int(c.events.Fd()), b, 0) // the kernel gives all of it at once
	return err == nil && strings.Contains(string(b[:n]), "populated 0")
}

func (c *cgroup) remove() {
	c.dir.Close()
	c.events.Close()
	os.Remove(c.path)
}

// release takes a cgroup back, and looks which of those that came back before are empty by now.
func (g *groups) release(c *cgroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = slices.DeleteFunc(append(g.left, c), func(c *cgroup) bool {
		if !c.empty() {
			return false
		}
		c.holder = nil
		if len(g.free) < maxFree {
			g.free = append(g.free, c)
		} else {
			c.remove()
		}
		return true
	})
}

// freezePatience is how long processes are waited for that can't be stopped where they are.
const freezePatience = 500 * time.Millisecond

// freeze has no process run, and returns when none does, as far as the kernel can stop them.
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
	for began := time.Now(); time.Since(began) < freezePatience; {
		n, err := unix.Pread(int(events.Fd()), b, 0)
		if err != nil || strings.Contains(string(b[:n]), "frozen 1") {
			return err
		}
		changed := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(changed, int((freezePatience-time.Since(began)).Milliseconds())+1); err != nil && err != unix.EINTR {
			return err
		}
	}
	return nil
}

// thaw has them run again.
func (g *groups) thaw() error { return put(filepath.Join(g.path, "cgroup.freeze"), "0") }

// oomKills is how many processes the kernel has killed for want of memory.
func (g *groups) oomKills() (int, error) {
	b := make([]byte, 512) // more than it ever is
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

// group is the cgroup of one exec.
type group struct {
	groups *groups
	cgroup *cgroup
	kills  int // of the whole machine when it was given
}

// Prepare has the process start in the cgroup.
func (g *group) Prepare(attr *os.ProcAttr) {
	attr.Sys.UseCgroupFD = true
	attr.Sys.CgroupFD = int(g.cgroup.dir.Fd())
}

// PID is not known: to ask the kernel for it takes as long as much else of an exec. The process itself knows it.
func (g *group) PID(int) int { return 0 }

// Kill kills all members at once, those among them that are just starting others too.
func (g *group) Kill(int) error {
	g.groups.mu.Lock()
	defer g.groups.mu.Unlock()
	if g.cgroup.holder != g {
		return nil // it was empty, and may be another's by now
	}
	return put(filepath.Join(g.cgroup.path, "cgroup.kill"), "1")
}

// OutOfMemory compares the count of kills with that of the beginning.
func (g *group) OutOfMemory() bool {
	kills, err := g.groups.oomKills()
	return err == nil && kills > g.kills
}

// Release gives the cgroup back: to the next exec as soon as it is empty.
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
