package gvisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

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
	// inside is who the sentry is in its own namespace: not root.
	inside = 1
	// programFD is the number under which the helper inherits its own program.
	programFD = process.FirstFD + 6
)

// sentryEnv is all that the sentry gets of an environment. It keeps Go's runtime from holding the host's cgroup files open.
var sentryEnv = []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// agentEnv has the agent collect its garbage seldom.
var agentEnv = []string{"GODEBUG=asyncpreemptoff=1", "GOGC=400", "GOMEMLIMIT=64MiB"}

// launch starts the process that becomes the machine, and gives it its order. It is started
//   - in user, PID, mount, network, IPC and UTS namespaces of its own: nothing of the host is seen from it, and what it forks dies with it;
//   - as the user of pyro, or under root as one of a range that nobody else uses;
//   - with the one capability in its namespaces by which it leaves the host's file system, which it gives up at once (runsc/confine.go);
//   - with no file open but those of its machine.
func (d *Driver) launch(h Helper, i *images, spec machine.Spec) (s *sandbox, err error) {
	var files inheritance
	defer files.close()
	near, far, err := machine.NewStream()
	if err != nil {
		return nil, err
	}
	files.add(far)
	files.open(i.agent.Path(imageFile))
	files.open(i.environment.Path(imageFile))
	layer, err := disk.Unnamed(spec.Dir)
	if err != nil {
		near.Close()
		return nil, err
	}
	files.add(layer)
	to := files.pipe(false)
	from := files.pipe(true)
	files.open(h.Path)
	s = &sandbox{control: newControl(near), link: link.NewPipes(from, to), done: make(chan struct{})}
	if files.err != nil {
		s.closeConnections()
		return nil, files.err
	}
	if s.group, s.unlimited, err = d.group(spec); err != nil {
		s.closeConnections()
		return nil, err
	}
	s.process, err = s.run(spec.ID, files.all)
	if errors.Is(err, syscall.ENOSYS) && s.group != nil { // a container's filter may deny clone3, which starts a process in a group
		s.group.Close()
		s.group, s.unlimited = nil, fmt.Errorf("a process can't be started in a cgroup: %w", err)
		s.process, err = s.run(spec.ID, files.all)
	}
	if err != nil {
		s.closeConnections()
		if s.group != nil {
			s.group.Close()
		}
		return nil, refused(err)
	}
	go s.watch()
	if err := s.obey(spec); err != nil {
		return nil, s.giveUp(err)
	}
	return s, nil
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
	g, err = parent.Make(spec.ID, cgroup.Limits{
		MemoryBytes: int64(spec.MemMiB)<<20 + sentryMemory, CPUs: spec.VCPUs, Processes: maxTasks,
	})
	return g, nil, err
}

// maxTasks bounds the threads that a sentry has on the host: each of the machine's processes is several. The machine's own limit comes first (agent/guest).
const maxTasks = 32 << 10

// obey places the process in its cgroup and sends it its order. Until then it has forked nothing. Where the process has ended by now, what it said tells more
// than that it could not be told.
func (s *sandbox) obey(spec machine.Spec) error {
	if s.group != nil {
		if err := s.group.Add(s.process.PID()); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	s.control.send(order{
		Protocol: protocol, ID: spec.ID, VCPUs: spec.VCPUs, MemBytes: int64(spec.MemMiB) << 20, LayerBytes: layerSize,
		Args: []string{agentProgram, "sandbox"}, Env: agentEnv,
	})
	return nil
}

func confinement(id string) *syscall.SysProcAttr {
	uid, gid := os.Getuid(), os.Getgid()
	root := uid == 0
	if root {
		uid = process.User(id)
		gid = uid
	}
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: gid, Size: 1}},
		// An ordinary user keeps the groups that they have; they may not set any.
		Credential:                 &syscall.Credential{Uid: inside, Gid: inside, NoSetGroups: !root},
		GidMappingsEnableSetgroups: root,
		AmbientCaps:                []uintptr{unix.CAP_SYS_ADMIN},
		Setsid:                     true,
	}
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

func (i *inheritance) open(path string) {
	f, err := os.Open(path)
	if err != nil {
		i.err = errors.Join(i.err, err)
		return
	}
	i.add(f)
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
