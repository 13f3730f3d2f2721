package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/control/server"
	"gvisor.dev/gvisor/pkg/cpuid"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/gomaxprocs"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/metric"
	"gvisor.dev/gvisor/pkg/ring0"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/specutils"
	"gvisor.dev/gvisor/runsc/starttime"

	"github.com/pyro-mcp/pyro/runsc/filter"
)

// controlName is the address at which the sentry takes commands: a socket without a name in the file system, in this process's own network namespace.
const controlName = "\x00control"

// machine is the sentry of one machine, in one process: what gVisor's run makes of three, its client, its boot and, after giving up its user, its boot
// again. The owner has started it as PID 1 of new user, PID, mount, network, IPC and UTS namespaces, with CAP_SYS_ADMIN in them, which it gives up before it
// looks at anything of the machine. Nothing of a machine needs the host's file system but its volume, for which there is another process (gofer.go).
//
// It ends with the machine, or with its owner.
func machine() error {
	debug.SetGCPercent(-1)                                   // a start is short, and memory that it leaves is collected afterwards
	_ = time.Local.String()                                  // reads a file, which later is forbidden
	os.WriteFile("/proc/self/comm", []byte("pyro-runsc"), 0) // it was started by a descriptor's number
	log.SetTarget(log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
	log.SetLevel(log.Warning)
	owner, o, err := meet()
	if err == nil {
		err = run(owner, o)
	}
	if err != nil && owner != nil {
		owner.tell("", err)
	}
	return err
}

// starters is for how many goroutines there are threads while a machine starts, beside those that it has later: what starts it calls itself over sockets, and who waits in
// the kernel for an answer keeps a thread from others for up to 10 ms.
const starters = 2

func run(owner *owner, o order) error {
	conf, err := configure(o)
	if err != nil {
		return err
	}
	unix.Close(programFD)
	cpuid.Initialize()
	ring0.InitDefault()
	if err := leaveHost(); err != nil {
		return err
	}
	if err := keepPrivileges(); err != nil {
		return err
	}
	filter.Register()
	if o.VCPUs == 1 {
		// The sentry is given as many threads as the machine has processors. One is too few: what serves the machine waits for what it does, and it never
		// waits awake for the next system call, which then costs 70 us instead of 3.
		gomaxprocs.Add(1)
	}
	gomaxprocs.Add(starters)
	limitTasks(o.Tasks, o.MemBytes)
	if o.Storage {
		limitVolume()
	}
	l, err := load(conf, o)
	if err != nil {
		return err
	}
	changed, others, restored := rootOf(o), &held{}, make(chan struct{})
	metric.Initialize()
	sentry, err := client.ConnectTo(controlName)
	if err != nil {
		return err
	}
	go func() {
		err := start(sentry, o, restored)
		if err == nil && changed != nil {
			err = changed.wait()
		}
		owner.tell("started", err)
		gomaxprocs.Add(-starters)
		if err == nil {
			owner.obey(deeds(l, changed, others))
		}
		os.Exit(0) // the owner is gone, or there is nothing to own
	}()
	l.WaitForStartSignal()
	if o.Restore { // its state has been read; whether it is what was saved the owner knows
		close(restored)
		if err := resume(l, owner, changed, others); err != nil {
			return err
		}
	}
	if err := l.Run(); err != nil {
		return err
	}
	debug.SetGCPercent(50)
	if status := l.WaitExit(); status.Signaled() {
		return fmt.Errorf("the agent was killed by signal %d", status.TerminationSignal())
	} else {
		return fmt.Errorf("the agent exited with code %d", status.ExitStatus())
	}
}

// configure gives gVisor's settings, where they are other than by default.
func configure(o order) (*config.Config, error) {
	flags := flag.NewFlagSet("machine", flag.ContinueOnError)
	config.RegisterFlags(flags)
	settings := map[string]string{
		"root":              newRoot,
		"network":           "none",
		"ignore-cgroups":    "true", // they are the owner's business
		"directfs":          "false",
		"host-settings":     "ignore",
		"in-sandbox-cgroup": "v2",
	}
	if o.Network != nil { // what root in a machine may send on its own link is the business of whoever serves that
		settings["network"], settings["net-raw"], settings["allow-packet-socket-write"] = "sandbox", "true", "true"
	}
	for name, value := range settings {
		if err := flags.Set(name, value); err != nil {
			return nil, err
		}
	}
	return config.NewFromFlags(flags)
}

// load makes the sentry.
func load(conf *config.Config, o order) (*boot.Loader, error) {
	controller, err := server.CreateSocket(controlName)
	if err != nil {
		return nil, err
	}
	stdio, err := duplicates(0, 1, 2)
	if err != nil {
		return nil, err
	}
	mounts, files := []specutils.GoferMountConf{
		{Lower: specutils.Erofs, Upper: specutils.NoOverlay},
		{Lower: specutils.Erofs, Upper: specutils.AnonOverlay, Size: strconv.FormatInt(o.LayerBytes, 10)},
	}, []int{agentFD, envFD}
	if o.Storage {
		mounts = append(mounts, specutils.GoferMountConf{Lower: specutils.Lisafs, Upper: specutils.NoOverlay})
		files = append(files, volumeFD)
	}
	return boot.New(boot.Args{
		ID: o.ID, Spec: specOf(o), Conf: conf, ControllerFD: controller,
		GoferFDs: files, GoferFilestoreFDs: []int{layerFD}, GoferMountConfs: mounts,
		StdioFDs: stdio, PassFDs: []boot.FDMapping{{Guest: agentLinkIn, Host: linkInFD}, {Guest: agentLinkOut, Host: linkOutFD}},
		NumCPU: o.VCPUs, TotalMem: o.MemBytes, TotalHostMem: o.MemBytes,
		Device: fd.New(-1), PinRingFD: -1, DevGoferFD: -1, ExecFD: -1, UserLogFD: -1, PodInitConfigFD: -1, RootfsUpperTarFD: -1,
		StartupTimer: starttime.Timer("machine"),
	})
}

// duplicates gives copies of descriptors. The loader closes what it is given, and the numbers of the standard ones must not become something else's.
func duplicates(fds ...int) (copies []int, err error) {
	for _, n := range fds {
		c, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
		copies = append(copies, c)
	}
	return copies, nil
}

// start starts the machine, by the sentry's own interface. The pages of one that goes on are read from when it has been restored, with which they would compete before.
func start(sentry *urpc.Client, o order, restored <-chan struct{}) error {
	links := links(o)
	if err := sentry.Call(boot.ContMgrSetNetworkArgs, &links, nil); err != nil {
		return err
	}
	if !o.Restore {
		return sentry.Call(boot.ContMgrRootContainerStart, &o.ID, nil)
	}
	saved, err := savedState(restored)
	if err != nil {
		return err
	}
	return sentry.Call(boot.ContMgrRestore, saved, nil)
}

// rootOf gives the root of a machine that can be asked to keep it, and nil for others.
func rootOf(o order) *root {
	var archive *os.File
	switch {
	case !o.Storage:
		return nil
	case o.Restore:
		return &root{}
	case o.Root:
		archive = os.NewFile(rootFD, "root")
	}
	return newMachineRoot(archive)
}

// deeds are what a started machine does for its owner.
func deeds(l *boot.Loader, changed *root, others *held) map[string]deed {
	k, paused := kernelOf(l), false
	pause := func(wanted bool, do func()) func([]*os.File) error {
		return func([]*os.File) error {
			if paused != wanted {
				do()
				paused = wanted
			}
			return nil
		}
	}
	return map[string]deed{
		"save":   {"saved", func(streams []*os.File) error { return save(l, streams) }},
		"pause":  {"paused", pause(true, k.Pause)},
		"resume": {"resumed", pause(false, k.Unpause)},
		"wake":   {"awake", func([]*os.File) error { others.letGo(); return nil }},
		"keep":   {"kept", func(to []*os.File) error { return keep(changed, to) }},
	}
}

// keep writes what the machine has changed of its environment to a socket, to its end.
func keep(changed *root, files []*os.File) error {
	if len(files) != 1 {
		return errors.New("there is nothing to write to")
	}
	to := stream{files[0]}
	defer to.Close()
	if changed == nil {
		return errors.New("the machine has no storage")
	}
	w := bufio.NewWriterSize(to, 256<<10)
	if err := changed.keep(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return to.Close()
}
