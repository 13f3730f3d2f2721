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

// controlName is the address at which the sentry accepts commands. It is an abstract socket in this
// process's own network namespace.
const controlName = "\x00control"

// machine runs the sentry of one machine in one process. gVisor's command run needs three
// processes: the client, the boot process, and the boot process again without root.
//
// pyro starts this process as PID 1 of new user, PID, mount, network, IPC and UTS namespaces, with
// CAP_SYS_ADMIN in them. The process drops this capability before it reads anything from the
// machine. From the host's file system a machine needs only its volume, and another process serves
// the volume (gofer.go).
//
// The sentry exits when the machine or pyro ends.
func machine() error {
	debug.SetGCPercent(-1)  // A start is short, so garbage is collected only afterwards.
	_ = time.Local.String() // Reads a file now, because the filter forbids that later.
	// Without this, the name of the process would be a descriptor's number.
	os.WriteFile("/proc/self/comm", []byte("pyro-runsc"), 0)
	log.SetTarget(log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
	log.SetLevel(log.Warning)
	owner, o, err := readConfig()
	if err == nil {
		err = run(owner, o)
	}
	if err != nil && owner != nil {
		owner.send("", err)
	}
	return err
}

// starters is the number of additional threads during the start. The start calls the sentry over
// sockets. Without these threads, a goroutine that waits in the kernel would block its thread for
// up to 10 ms.
const starters = 2

func run(owner *owner, o startConfig) error {
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
	if err := filter.RefuseMetadata(); err != nil {
		return err
	}
	filter.Register()
	if o.VCPUs == 1 {
		// The sentry gets one thread for each processor of the machine, but at least two. With only
		// one thread it never spins while it waits for the next system call. That system call would
		// then take 70 us instead of 3 us.
		gomaxprocs.Add(1)
	}
	gomaxprocs.Add(starters)
	limitTasks(o.Tasks, o.MemBytes)
	restartOpens()
	if o.Storage {
		limitVolume()
		describeVolume()
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
		owner.send("started", err)
		gomaxprocs.Add(-starters)
		if err == nil {
			owner.serve(commands(l, changed, others))
		}
		os.Exit(0) // pyro has ended, or another program has started this process
	}()
	l.WaitForStartSignal()
	if o.Restore { // gVisor has read the state, and pyro checks the files
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

// configure sets those gVisor options that differ from the default.
func configure(o startConfig) (*config.Config, error) {
	flags := flag.NewFlagSet("machine", flag.ContinueOnError)
	config.RegisterFlags(flags)
	settings := map[string]string{
		"root":              newRoot,
		"network":           "none",
		"ignore-cgroups":    "true", // pyro makes the cgroups
		"directfs":          "false",
		"host-settings":     "ignore",
		"in-sandbox-cgroup": "v2",
	}
	if o.Network != nil { // root in a machine can send any packet on its link, and the stack at the other end decides
		settings["network"], settings["net-raw"], settings["allow-packet-socket-write"] = "sandbox", "true", "true"
	}
	for name, value := range settings {
		if err := flags.Set(name, value); err != nil {
			return nil, err
		}
	}
	return config.NewFromFlags(flags)
}

// load creates the sentry.
func load(conf *config.Config, o startConfig) (*boot.Loader, error) {
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

// duplicates duplicates descriptors. The loader closes the descriptors that it gets, but the
// standard descriptors must stay open.
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

// start starts the machine through the sentry's own control interface. In a resumed machine, most
// pages are read only after the restore, because the reads would slow down the restore.
func start(sentry *urpc.Client, o startConfig, restored <-chan struct{}) error {
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

// rootOf returns the root of a machine, or nil if the root can't be saved.
func rootOf(o startConfig) *root {
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

// commands returns the commands for a running machine.
func commands(l *boot.Loader, changed *root, others *held) map[string]command {
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
	return map[string]command{
		"save":   {"saved", func(streams []*os.File) error { return save(l, streams) }},
		"pause":  {"paused", pause(true, func() { k.Pause(); closeUnused(k) })},
		"resume": {"resumed", pause(false, k.Unpause)},
		"wake":   {"awake", func([]*os.File) error { others.letGo(); return nil }},
		"keep":   {"kept", func(to []*os.File) error { return keep(changed, to) }},
	}
}

// keep writes the changes to the environment to a socket and closes the socket.
func keep(changed *root, files []*os.File) error {
	if len(files) != 1 {
		return errors.New("the socket for the changes is missing")
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
