package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/program"
)

// gvisor compares machines under gVisor with direct calls of pyro-runsc on the same image, through
// gVisor's own command. It also compares them with the host.
func (b *bench) gvisor() error {
	if err := b.sandbox.Prove(b.ctx, nil); err != nil {
		fmt.Fprintln(os.Stderr, "gvisor is not measured:", err)
		return nil
	}
	for _, measure := range []func() error{b.sandboxStart, b.sandboxExec, b.sandboxProcessor, b.sandboxesTogether, b.sandboxMemory} {
		if err := measure(); err != nil {
			return err
		}
	}
	return nil
}

func runSandboxed(argv ...string) *exec.Cmd {
	return exec.Command("bin/pyro", append([]string{"run", "-q", "--isolation", "gvisor", environmentName, "--"}, argv...)...)
}

func (b *bench) sandboxStart() error {
	bare, err := b.bareSandbox("true")
	if err != nil {
		return err
	}
	r, err := b.times(b.n, func() error { return runSandboxed("true").Run() }, bare)
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("gvisor: pyro run debian:12 -- true, whole process", "ms", r[0]).times(r[0], r[1], 1.25))
	return nil
}

// bareSandbox prepares a call of gVisor's own run command with the environment's image. If the host
// permits limits, the call has the same limits as pyro's machines.
func (b *bench) bareSandbox(argv ...string) (func() error, error) {
	store := template.Store{Dir: b.dirs.Templates()}
	all, err := store.List()
	if err != nil {
		return nil, err
	}
	image := ""
	for _, t := range all {
		if strings.HasPrefix(t.Key.Form, "erofs-environment") && t.Key.Root == b.root.Digest {
			image = filepath.Join(store.Dir, t.Name, "image.erofs")
		}
	}
	if image == "" {
		return nil, errors.New("no image for gVisor was found")
	}
	bundle := filepath.Join(b.dir, "bundle")
	if err := os.MkdirAll(filepath.Join(bundle, "rootfs"), 0o755); err != nil {
		return nil, err
	}
	type object = map[string]any
	limits, flags := object{}, []string{"--root=" + filepath.Join(b.dir, "runsc"), "--network=none"}
	if b.sandbox.Features().Limits {
		limits["cgroupsPath"] = "/pyro-bench"
		limits["resources"] = object{
			"memory": object{"limit": memMiB << 20}, "cpu": object{"quota": vcpus * 100_000, "period": 100_000}, "pids": object{"limit": 32 << 10},
		}
	} else {
		flags = append(flags, "--ignore-cgroups")
	}
	config, err := json.Marshal(object{
		"ociVersion": "1.0.0",
		"process":    object{"args": argv, "cwd": "/", "env": []string{"PATH=/usr/bin:/bin"}},
		"root":       object{"path": "rootfs"},
		"mounts":     []object{{"destination": "/proc", "type": "proc"}},
		"linux":      limits,
		"annotations": object{
			"dev.gvisor.spec.rootfs.source": image, "dev.gvisor.spec.rootfs.type": "erofs", "dev.gvisor.spec.rootfs.overlay": "memory",
		},
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600); err != nil {
		return nil, err
	}
	n := 0
	return func() error {
		n++
		out, err := exec.Command("bin/pyro-runsc", append(slices.Clone(flags), "run", "-bundle", bundle, fmt.Sprintf("bare-%04d", n))...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("pyro-runsc run: %w: %s", err, out)
		}
		return nil
	}, nil
}

func (b *bench) sandboxExec() error {
	m, err := b.machineOf(b.sandbox)
	if err != nil {
		return err
	}
	defer m.Close()
	return b.execIn(m, "gvisor: exec /bin/true on a running machine", 3)
}

// Programs that run a computation and print the time it took, in seconds.
var computations = []struct{ name, python string }{
	{"Python loop", `import time
t = time.perf_counter()
s = 0
for i in range(3000000): s += i * i
print(time.perf_counter() - t)`},
	{"sha256 of 256 MiB", `import time, hashlib
b = bytes(1 << 20)
t = time.perf_counter()
h = hashlib.sha256()
for i in range(256): h.update(b)
print(time.perf_counter() - t)`},
}

// sandboxProcessor compares a computation in a machine with the same computation on the host.
func (b *bench) sandboxProcessor() error {
	m, err := b.machineOf(b.sandbox)
	if err != nil {
		return err
	}
	defer m.Close()
	root := filepath.Join(b.dir, "root")
	if err := b.unpack(root); err != nil {
		return err
	}
	for _, c := range computations {
		argv := []string{"/usr/bin/python3", "-c", c.python}
		var inside, outside []float64
		for i := range b.n + 1 {
			var in, out bytes.Buffer
			if _, err := m.Agent.Exec(b.ctx, program.Command{Argv: argv}, program.Attach{Stdout: &in}); err != nil {
				return err
			}
			host := exec.Command(argv[0], argv[1:]...)
			host.Stdout, host.Dir = &out, "/"
			host.SysProcAttr = &syscall.SysProcAttr{
				Chroot: root, Cloneflags: syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
			if err := host.Run(); err != nil {
				return err
			}
			first, err1 := strconv.ParseFloat(strings.TrimSpace(in.String()), 64)
			second, err2 := strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if i > 0 {
				inside, outside = append(inside, first*1000), append(outside, second*1000)
			}
		}
		b.figures = append(b.figures, figure("gvisor: "+c.name+"; floor: on the host", "ms", inside).times(inside, outside, 1.1))
	}
	return nil
}

// unpack copies the programs and libraries of the environment to a folder.
func (b *bench) unpack(to string) error {
	f, err := os.Open(b.image)
	if err != nil {
		return err
	}
	defer f.Close()
	tree, err := ext4.OpenFile(f)
	if err != nil {
		return err
	}
	return fs.WalkDir(tree, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path)
		switch e.Type() {
		case fs.ModeDir:
			return os.MkdirAll(target, 0o755)
		case fs.ModeSymlink:
			link, err := fs.ReadLink(tree, path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case 0:
			content, err := fs.ReadFile(tree, path)
			if err != nil {
				return err
			}
			return os.WriteFile(target, content, 0o755)
		}
		return nil
	})
}

// sandboxesTogether measures eight concurrent starts. All of them must succeed.
func (b *bench) sandboxesTogether() error {
	const machines = 8
	r, err := b.times(b.n, func() error {
		errs := make([]error, machines)
		var wg sync.WaitGroup
		for i := range machines {
			wg.Go(func() { errs[i] = runSandboxed("true").Run() })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("gvisor: 8 starts at once, 2 processors, none fails", "ms", r[0]))
	return nil
}

// sandboxMemory measures the memory of an idle machine: the sentry and its child processes, and
// pyro.
func (b *bench) sandboxMemory() error {
	const machines = 8
	var cmds []*exec.Cmd
	defer func() {
		for _, cmd := range cmds {
			cmd.Process.Signal(syscall.SIGKILL)
			cmd.Wait()
		}
	}()
	for range machines {
		cmd := runSandboxed("sleep", "60")
		if err := cmd.Start(); err != nil {
			return err
		}
		cmds = append(cmds, cmd)
	}
	time.Sleep(5 * time.Second)
	var all []float64
	for _, cmd := range cmds {
		total := 0.0
		for _, pid := range family(cmd.Process.Pid) {
			pss, err := kilobytes(pid, "smaps_rollup", "Pss")
			if err != nil {
				return err
			}
			total += pss
		}
		all = append(all, total)
	}
	b.figures = append(b.figures, figure("gvisor: idle machine in all, PSS, one of 8", "MiB", all).atMost(30))
	return nil
}

// family returns a process and its descendants.
func family(pid int) []int {
	pids := []int{pid}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(pids, family(child)...)
			}
		}
	}
	return pids
}
