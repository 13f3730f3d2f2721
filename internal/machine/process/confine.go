package process

import (
	"os"
	"syscall"
)

// inside is the ID of a confined program's user in its user namespace. This user is not root,
// because root has all capabilities in the namespace. With CAP_SYS_ADMIN, for example, a program
// could use a mount to leave its root folder.
const inside = 1

// Confined returns the attributes to start a program in new user, mount, PID, network, IPC and UTS
// namespaces. The program has the given capabilities in them. On the host the program runs as uid
// and gid. If pyro is not root, uid and gid must be pyro's own.
func Confined(uid, gid int, capabilities ...uintptr) *syscall.SysProcAttr {
	root := os.Getuid() == 0
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: gid, Size: 1}},
		// Ordinary users keep their groups, because they are not allowed to set other groups.
		Credential:                 &syscall.Credential{Uid: inside, Gid: inside, NoSetGroups: !root},
		GidMappingsEnableSetgroups: root,
		AmbientCaps:                capabilities,
		Setsid:                     true,
	}
}
