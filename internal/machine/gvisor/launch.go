package gvisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/link"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/cgroup"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/protocol"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

const (
	// layerSize is the maximum size of the changes to a machine's root, in bytes. It is the same as
	// for machines under QEMU.
	layerSize = 16 << 30
	// sentryMemory is the memory that the sentry needs in addition to the machine's memory, in
	// bytes.
	sentryMemory = 96 << 20
	// programFD is the file descriptor of the sentry's own program.
	programFD = process.FirstFD + 6
	// stateFD is the first file descriptor of the files of a saved machine.
	stateFD = programFD + 3
)

// openFiles is the maximum number of open files for each process of a machine with a volume.
var openFiles = unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}

// sentryEnv contains settings of Go's runtime in the sentry. They stop the runtime from opening the
// host's cgroup files.
var sentryEnv = []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// agentArgs starts the agent with abilities from internal/agent/guest. It gets none for the clock
// and the network, because gVisor uses the host's clock and configures the network itself.
var agentArgs = []string{agentProgram, "agent", "cgroups", "devices", "max-processes=2048"}

// agentEnv contains settings of Go's runtime, so that the agent collects garbage rarely.
var agentEnv = []string{"GODEBUG=asyncpreemptoff=1", "GOGC=400", "GOMEMLIMIT=64MiB"}

// launch starts the process that becomes the machine, and the process for the volume, if there is
// one (volume.go). Then it sends the start config. The sentry has these restrictions:
//   - It has its own user, PID, mount, network, IPC and UTS namespaces. It sees nothing of the
//     host, and its child processes die with it.
//   - It runs as pyro's user or, if pyro is root, as a user that nothing else uses.
//   - It has one capability in its namespaces. It uses this capability to leave the host's file
//     system, then drops it (runsc/confine.go).
//   - It has only the open files of its machine.
//
// The parameter from is the saved machine to resume. If from is nil, the machine boots.
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
		id: spec.ID, control: newControl(near), link: link.NewPipes(out, in), done: make(chan struct{}), pauseState: newPauseState(), description: d.describe(h, spec),
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
	if err := s.sendConfig(spec, from != nil); err != nil {
		return nil, s.closeAfter(err)
	}
	return s, nil
}

// begin starts the processes. They run in a cgroup if the host allows it.
func (s *sandbox) begin(d *Driver, h Helper, spec machine.Spec, files *inheritance, from *source) (err error) {
	var toSentry *os.File
	if s.storage != nil {
		toSentry = files.volume()
		defer toSentry.Close()
		if from == nil {
			// If this fails, the file stays, and the host reads the volume through the machine.
			_ = os.Remove(filepath.Join(s.storage.Folder, machine.TreeIncomplete))
		}
		if from == nil && s.storage.Root != "" { // a saved machine already contains the changes to its root
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
	if s.group != nil && withoutGroups(err) {
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

// withoutGroups reports whether the host can't start processes in a cgroup. For this, pyro needs
// clone3. In some containers a seccomp filter denies it with ENOSYS. Linux before 5.7 has clone3
// without this feature, and answers E2BIG or EINVAL.
func withoutGroups(err error) bool {
	return errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.EINVAL)
}

// run starts the sentry.
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

// group creates the cgroup of a machine. If the host does not allow cgroups, reason says why, and g
// is nil.
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

// groupName returns the name of a machine's cgroup. The name of a machine with storage must be
// unique: a workspace's machine has the same ID at each start, and the group of a crashed machine
// might still exist.
func groupName(spec machine.Spec) string {
	if spec.Storage == nil {
		return spec.ID
	}
	return fmt.Sprintf("%s-%d-%d", spec.ID, os.Getpid(), time.Now().UnixNano())
}

const (
	// maxTasks is the maximum number of a sentry's processes and threads on the host. The sentry
	// has two to four for each process of the machine, and more during exec. The machine reaches
	// its own limit before this one.
	maxTasks = 16 << 10
	// mostTasks is the maximum number of processes and threads in a machine. Another limit depends
	// on the memory, see tasksOf. The agent's own limit is higher, so the agent can always start
	// processes.
	mostTasks   = 2048 - 32
	sparedTasks = 96
	leastTasks  = 64
)

// tasksOf returns the maximum number of processes and threads in a machine: one for each MiB of
// memory above sparedTasks, but at least leastTasks and at most mostTasks.
func tasksOf(spec machine.Spec) int { return max(leastTasks, min(mostTasks, spec.MemMiB-sparedTasks)) }

// sendConfig adds the processes to their cgroup, then sends the start config. The sentry forks
// nothing before it gets the start config. Errors of the send are ignored: the sentry has then
// ended, and its own error is more precise.
func (s *sandbox) sendConfig(spec machine.Spec, restore bool) error {
	for _, p := range []*process.Process{s.process, s.gofer} {
		if s.group == nil || p == nil {
			continue
		}
		if err := s.group.Add(p.PID()); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	// Both processes open each file of the volume that the machine opens, so pyro raises their
	// limits if it is allowed to.
	if s.gofer != nil {
		unix.Prlimit(s.process.PID(), unix.RLIMIT_NOFILE, &openFiles, nil)
		unix.Prlimit(s.gofer.PID(), unix.RLIMIT_NOFILE, &openFiles, nil)
	}
	o := protocol.StartConfig{
		Protocol: protocol.Version, ID: spec.ID, VCPUs: spec.VCPUs, MemBytes: uint64(spec.MemMiB) << 20, LayerBytes: layerSize, Tasks: tasksOf(spec),
		Args: agentArgs, Env: agentEnv, Storage: s.storage != nil, Root: !restore && s.storage != nil && s.storage.Root != "", Restore: restore,
	}
	if n := spec.Network; n != nil {
		o.Network = &protocol.Network{MAC: n.MAC, GatewayMAC: n.GatewayMAC, Address: n.Address, Gateway: n.Gateway, Address6: n.Address6, Gateway6: n.Gateway6, MTU: n.MTU}
		s.control.send(o, n.Link)
		return nil
	}
	s.control.send(o)
	return nil
}

// confinement returns the attributes that confine the sentry. With them the sentry can still change
// its root.
func confinement(id string) *syscall.SysProcAttr {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid = process.User(id)
		gid = uid
	}
	return process.Confined(uid, gid, unix.CAP_SYS_ADMIN)
}

// refused explains why a process could not be started in new namespaces.
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

// inheritance is the list of files that a process inherits, in the order of their descriptors. The
// field err collects the errors of all methods.
type inheritance struct {
	all []*os.File
	err error
}

func (i *inheritance) add(f *os.File) { i.all = append(i.all, f) }

func (i *inheritance) open(path string) { i.try(os.Open(path)) }

// unnamed adds an empty file without a name. The file is in the same file system as the folder.
func (i *inheritance) unnamed(folder string) { i.try(disk.Unnamed(folder)) }

func (i *inheritance) try(f *os.File, err error) {
	if err != nil {
		i.err = errors.Join(i.err, err)
		return
	}
	i.add(f)
}

// volume adds one end of a socket pair and returns the other end, or nil after an error.
func (i *inheritance) volume() *os.File {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		i.err = errors.Join(i.err, os.NewSyscallError("socketpair", err))
		return nil
	}
	i.add(os.NewFile(uintptr(fds[0]), "volume"))
	return os.NewFile(uintptr(fds[1]), "sentry")
}

// pipe adds one end of a pipe and returns the other end. If written is true, it adds the write end.
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
