package process

import (
	"os"
	"syscall"
)

// inside is who a confined program is in its own user namespace: not root, who would have every capability there. With CAP_SYS_ADMIN, for one, it could
// mount a folder and leave by it the one that it is locked into.
const inside = 1

// Confined has a program start in user, mount, PID, network, IPC and UTS namespaces of its own, where it has these capabilities. On the host it is the given
// user and group, which have to be pyro's own unless that is root.
func Confined(uid, gid int, capabilities ...uintptr) *syscall.SysProcAttr {
	root := os.Getuid() == 0
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: gid, Size: 1}},
		// An ordinary user keeps the groups that they have; they may not set any.
		Credential:                 &syscall.Credential{Uid: inside, Gid: inside, NoSetGroups: !root},
		GidMappingsEnableSetgroups: root,
		AmbientCaps:                capabilities,
		Setsid:                     true,
	}
}
