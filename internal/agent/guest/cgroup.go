package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
)

// The user's processes share one cgroup, which is bounded so that the agent stays able to work whatever they do; each exec has one below it, by which
// all that it started can be killed.
const (
	userGroup = "user"
	// maxProcesses bounds the processes and threads of a machine: far above what work needs, far below what stops the kernel.
	maxProcesses = 8192
	// reserve is the memory that processes can't have: the agent's, and the kernel's own.
	reserve = 48 << 20
)

// groups makes the cgroups of execs.
type groups struct {
	path  string        // of the user's cgroup
	kills *os.File      // its memory.events
	spare chan *group   // one made in advance: an exec does not wait for it
	used  chan *group   // to be removed when nobody is waiting
	count func() string // names the next
}

func newGroups(root string) (*groups, error) {
	g := &groups{path: filepath.Join(root, userGroup), spare: make(chan *group, 1), used: make(chan *group, 64)}
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
	if err := put(filepath.Join(g.path, "pids.max"), strconv.Itoa(maxProcesses)); err != nil {
		return nil, err
	}
	if g.kills, err = os.Open(filepath.Join(g.path, "memory.events")); err != nil {
		return nil, err
	}
	n := 0
	g.count = func() string { n++; return "exec-" + strconv.Itoa(n) }
	go g.supply()
	return g, nil
}

// supply keeps one cgroup in stock and removes used ones.
func (g *groups) supply() {
	var left []*group // used, and still with members
	for {
		next, err := g.make()
		if err != nil {
			next = &group{err: err}
		}
		for waiting := true; waiting; {
			select {
			case g.spare <- next:
				waiting = false
			case old := <-g.used:
				left = removeEmpty(append(left, old))
			}
		}
	}
}

// removeEmpty removes cgroups without members and gives the others.
func removeEmpty(all []*group) []*group {
	kept := all[:0]
	for _, g := range all {
		if err := os.Remove(g.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			kept = append(kept, g)
		}
	}
	return kept
}

func (g *groups) make() (*group, error) {
	path := filepath.Join(g.path, g.count())
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &group{groups: g, path: path, dir: dir}, nil
}

func (g *groups) take() (agent.Group, error) {
	next := <-g.spare
	if next.err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", next.err)
	}
	next.kills, _ = g.oomKills()
	return next, nil
}

// oomKills is how many processes the kernel has killed for want of memory.
func (g *groups) oomKills() (int, error) {
	b := make([]byte, 512) // more than it ever is
	n, err := g.kills.ReadAt(b, 0)
	if err != nil && err != io.EOF {
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
	path   string
	dir    *os.File
	kills  int // of the whole machine when it was made
	err    error
}

// Prepare has the process start in the cgroup.
func (g *group) Prepare(attr *os.ProcAttr) {
	attr.Sys.UseCgroupFD = true
	attr.Sys.CgroupFD = int(g.dir.Fd())
}

// Started has the kernel choose among the user's processes, and not the agent, where memory is short. The process has inherited the agent's place in line.
func (g *group) Started(pid int) {
	put(fmt.Sprintf("/proc/%d/oom_score_adj", pid), "0") // where that fails it has ended
}

// Kill kills all members at once, those among them that are just starting others too.
func (g *group) Kill(int) error { return put(filepath.Join(g.path, "cgroup.kill"), "1") }

// OutOfMemory compares the count of kills with that of the beginning.
func (g *group) OutOfMemory() bool {
	kills, err := g.groups.oomKills()
	return err == nil && kills > g.kills
}

// Release has the cgroup removed as soon as it is empty.
func (g *group) Release() {
	g.dir.Close()
	g.groups.used <- g
}

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
