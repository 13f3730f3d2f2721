package main

import (
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// These constants describe the machine as the agent sees it (internal/agent/guest in pyro).
const (
	agentLinkIn  = 3 // descriptor for reading from the link
	agentLinkOut = 4 // descriptor for writing to the link
	environment  = "/env"
	volume       = "/volume"
)

// openFiles is the limit of open files for each process. It is the same as in pyro's other
// machines.
var openFiles = specs.POSIXRlimit{Type: "RLIMIT_NOFILE", Soft: 1 << 10, Hard: 1 << 20}

// specOf describes the machine for gVisor. The machine is one container. Its root is the agent's
// image, and its only process is the agent. The agent has all capabilities, because they apply only
// to the sentry's kernel.
func specOf(o startConfig) *specs.Spec {
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: environment, Type: "erofs", Source: "environment"},
	}
	if o.Storage {
		cached := "dcache=" + strconv.FormatUint(cachedFiles(), 10)
		// A shared file is replaced by a copy when it is first opened for writing (shared.go). With
		// this option the sentry then uses the copy for files that are already open or mapped.
		const replaced = "overlayfs_stale_read"
		mounts = append(mounts, specs.Mount{Destination: volume, Type: "bind", Source: "volume", Options: []string{cached, replaced}})
	}
	return &specs.Spec{
		Version: "1.0.0",
		Process: &specs.Process{
			Args: o.Args, Env: o.Env, Cwd: "/", Rlimits: []specs.POSIXRlimit{openFiles},
			Capabilities: &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities},
		},
		Root:   &specs.Root{Path: newRoot, Readonly: true},
		Mounts: mounts,
		Linux:  &specs.Linux{},
		Annotations: map[string]string{
			"dev.gvisor.spec.rootfs.source":  newRoot + "/agent", // the name does not matter, because the file is inherited
			"dev.gvisor.spec.rootfs.type":    "erofs",
			"dev.gvisor.spec.rootfs.overlay": "memory", // gVisor requires a value, but load sets the overlay
		},
	}
}

// cachedFiles returns the maximum number of the volume's files in the sentry's cache. Each file
// uses about 3 KiB and up to three of the gofer's descriptors. The cache can use half of these
// descriptors.
func cachedFiles() uint64 {
	var open unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err != nil {
		return 0
	}
	return min(open.Cur/6, 4096)
}

var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP",
	"CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER",
	"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE",
	"CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL", "CAP_SETFCAP",
	"CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ",
}
