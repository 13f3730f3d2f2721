package gvisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/link"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/cgroup"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

const (
	// layerSize bounds what a machine may change of its environment, the same as of a QEMU machine's disk.
	layerSize = 16 << 30
	// sentryMemory is what the sentry may take beside the machine's memory.
	sentryMemory = 96 << 20
	// programFD is the number under which the sentry inherits its own program.
	programFD = process.FirstFD + 6
	// stateFD is the number of the first of the files that the sentry goes on from.
	stateFD = programFD + 3
)

// openFiles is how many files each process may have open of a machine with a volume.
var openFiles = unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}

// sentryEnv is all that the sentry gets of an environment. It keeps Go's runtime from holding the host's cgroup files open.
var sentryEnv = []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// agentEnv has the agent collect its garbage seldom.
var agentEnv = []string{"GODEBUG=asyncpreemptoff=1", "GOGC=400", "GOMEMLIMIT=64MiB"}

// launch starts the process that becomes the machine, with another for its volume where it has one (volume.go), and gives it its order. It is started
//   - in user, PID, mount, network, IPC and UTS namespaces of its own: nothing of the host is seen from it, and what it forks dies with it;
//   - as the user of pyro, or under root as one of a range that nobody else uses;
//   - with the one capability in its namespaces by which it leaves the host's file system, which it gives up at once (runsc/confine.go);
//   - with no file open but those of its machine.
//
// from is what it goes on from, nil where it starts anew.
func (d *Driver) launch(h Helper, i *images, spec machine.Spec, from *source) (*sandbox, error) {
	near, far, err := machine.NewStream()
	if err != nil {
		return nil, err
	}
	var files inheritance
	defer files.close()
	files.add(far)
	files.open(i.agent.Path(imageFile))
	files.open(i.environment.Path(imageFile))
	files.unnamed(spec.Dir)
	in := files.pipe(false)
	out := files.pipe(true)
	files.open(h.Path)
	s := &sandbox{
		id: spec.ID, control: newControl(near), link: link.NewPipes(out, in), done: make(chan struct{}), standing: newStanding(), description: d.describe(h, spec),
	}
	if spec.Storage != nil {
		s.storage = spec.Storage.Tree
	}
	if err := s.begin(d, h, spec, &files, from); err != nil {
		s.closeConnections()
		if s.group != nil {
			s.group.Close()
		}
		return nil, err
	}
	go s.watch()
	if err := s.obey(spec, from != nil); err != nil {
		return nil, s.giveUp(err)
	}
	return s, nil
}

// begin starts the processes, in a cgroup where there may be one.
func (s *sandbox) begin(d *Driver, h Helper, spec machine.Spec, files *inheritance, from *source) (err error) {
	var toSentry *os.File
	if s.storage != nil {
		toSentry = files.volume()
		defer toSentry.Close()
		if from == nil && s.storage.Root != "" { // else what was saved has what it had changed
			files.open(s.storage.Root)
		}
	}
	if files.err != nil {
		return files.err
	}
	inherited := files.all
	if from != nil {
		inherited = append(inherited, make([]*os.File, stateFD-process.FirstFD-len(inherited))...)
		inherited = append(inherited, from.files...)
	}
	if s.group, s.unlimited, err = d.group(spec); err != nil {
		return err
	}
	s.process, err = s.run(spec.ID, inherited)
	if errors.Is(err, syscall.ENOSYS) && s.group != nil { // a container's filter may deny clone3, which starts a process in a group
		s.group.Close()
		s.group, s.unlimited = nil, fmt.Errorf("a process can't be started in a cgroup: %w", err)
		s.process, err = s.run(spec.ID, inherited)
	}
	if err != nil {
		return refused(err)
	}
	if s.storage == nil {
		return nil
	}
	if s.gofer, err = startGofer(h, spec.ID, s.storage, toSentry, s.group); err != nil {
		s.process.Kill()
		return refused(err)
	}
	return nil
}

// run starts the process.
func (s *sandbox) run(id string, files []*os.File) (*process.Process, error) {
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", programFD), "machine")
	cmd.Args[0] = HelperName
	cmd.ExtraFiles = files
	cmd.Env = sentryEnv
	cmd.Dir = "/"
	cmd.SysProcAttr = confinement(id)
	if s.group != nil {
		s.group.Attr(cmd.SysProcAttr)
	}
	return process.Start("gVisor's sentry", cmd)
}

// group makes the cgroup of a machine. reason says why there is none, where the host allows none.
func (d *Driver) group(spec machine.Spec) (g *cgroup.Group, reason, err error) {
	parent, reason := d.groups()
	if reason != nil {
		return nil, reason, nil
	}
	parent.Sweep()
	limits := cgroup.Limits{MemoryBytes: int64(spec.MemMiB)<<20 + sentryMemory, CPUs: spec.VCPUs, Processes: maxTasks}
	if spec.Storage != nil {
		limits.MemoryBytes += goferMemory
	}
	g, err = parent.Make(groupName(spec), limits)
	return g, nil, err
}

// groupName names the cgroup of a machine. One that comes back under the same id may find that of its life before, whose owner was killed.
func groupName(spec machine.Spec) string {
	if spec.Storage == nil {
		return spec.ID
	}
	return fmt.Sprintf("%s-%d-%d", spec.ID, os.Getpid(), time.Now().UnixNano())
}

const (
	// maxTasks bounds the processes and threads that a sentry has on the host: two to four for each
	// process of the machine, and a copy of those while it becomes another program. The machine's own
	// limit comes first.
	maxTasks = 16 << 10
	// mostTasks bounds the processes and threads in a machine, of which there is also no more than one
	// for each MiB of memory. The agent's limit (agent/guest) leaves room for what the agent starts.
	mostTasks   = 2048 - 32
	sparedTasks = 96
	leastTasks  = 64
)

// tasksOf is how many processes and threads the machine may have.
func tasksOf(spec machine.Spec) int { return max(leastTasks, min(mostTasks, spec.MemMiB-sparedTasks)) }

// obey places the processes in their cgroup and sends the sentry its order. Until then it has forked nothing. Where it has ended by now, what it said tells
// more than that it could not be told.
func (s *sandbox) obey(spec machine.Spec, restore bool) error {
	for _, p := range []*process.Process{s.process, s.gofer} {
		if s.group == nil || p == nil {
			continue
		}
		if err := s.group.Add(p.PID()); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	if s.gofer != nil { // both have the files of the volume open that the machine has: where pyro may, it allows them as many as a machine may have
		unix.Prlimit(s.process.PID(), unix.RLIMIT_NOFILE, &openFiles, nil)
		unix.Prlimit(s.gofer.PID(), unix.RLIMIT_NOFILE, &openFiles, nil)
	}
	o := order{
		Protocol: protocol, ID: spec.ID, VCPUs: spec.VCPUs, MemBytes: int64(spec.MemMiB) << 20, LayerBytes: layerSize, Tasks: tasksOf(spec),
		Args: []string{agentProgram, "sandbox"}, Env: agentEnv, Storage: s.storage != nil, Root: !restore && s.storage != nil && s.storage.Root != "", Restore: restore,
	}
	if n := spec.Network; n != nil {
		o.Network = &network{n.MAC, n.GatewayMAC, n.Address, n.Gateway, n.Address6, n.Gateway6, n.MTU}
		s.control.send(o, n.Link)
		return nil
	}
	s.control.send(o)
	return nil
}

// confinement is the sentry's, with the capability to make itself a root.
func confinement(id string) *syscall.SysProcAttr {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid = process.User(id)
		gid = uid
	}
	return process.Confined(uid, gid, unix.CAP_SYS_ADMIN)
}

// refused explains why a process in namespaces of its own could not be started.
func refused(err error) error {
	f := &fault.Error{Kind: fault.Unavailable, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		f.Err = fmt.Errorf("the host allows no more user namespaces: %w", err)
		f.Hint = "sudo sysctl user.max_user_namespaces=15000"
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		f.Err = fmt.Errorf("the host forbids user namespaces, which gVisor needs: %w", err)
		f.Hint = "sudo sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; a container needs " +
			"--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
	}
	return f
}

// inheritance is the files that a process inherits, numbered in the order in which they are added. The first error stays.
type inheritance struct {
	all []*os.File
	err error
}

func (i *inheritance) add(f *os.File) { i.all = append(i.all, f) }

func (i *inheritance) open(path string) { i.try(os.Open(path)) }

// unnamed adds an empty file without a name, in a folder's file system.
func (i *inheritance) unnamed(folder string) { i.try(disk.Unnamed(folder)) }

func (i *inheritance) try(f *os.File, err error) {
	if err != nil {
		i.err = errors.Join(i.err, err)
		return
	}
	i.add(f)
}

// volume adds an end of a socket, and gives the other, which may be nil when there is an error.
func (i *inheritance) volume() *os.File {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		i.err = errors.Join(i.err, os.NewSyscallError("socketpair", err))
		return nil
	}
	i.add(os.NewFile(uintptr(fds[0]), "volume"))
	return os.NewFile(uintptr(fds[1]), "sentry")
}

// pipe adds an end of a pipe, the one to write to where written is true, and gives the other.
func (i *inheritance) pipe(written bool) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		i.err = errors.Join(i.err, err)
		return nil
	}
	if written {
		i.add(w)
		return r
	}
	i.add(r)
	return w
}

func (i *inheritance) close() {
	for _, f := range i.all {
		f.Close()
	}
}
