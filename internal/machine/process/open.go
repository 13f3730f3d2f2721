package process

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Open opens one of the files in which the kernel tells of the program, by its name in /proc/PID, what the program has in its memory among them. Its parent may read it, and so may
// pyro as root. But root may have been denied the power over others (CAP_SYS_PTRACE), as it is in containers: then it opens the file as the user that the program is.
func (p *Process) Open(name string, flags int) (*os.File, error) {
	path := "/proc/" + strconv.Itoa(p.PID()) + "/" + name
	f, err := os.OpenFile(path, flags, 0)
	who := p.cmd.SysProcAttr.Credential
	if !errors.Is(err, fs.ErrPermission) || os.Getuid() != 0 || who == nil || len(p.cmd.SysProcAttr.UidMappings) > 0 {
		return f, err
	}
	runtime.LockOSThread() // who it is for the file system is the thread's alone
	defer runtime.UnlockOSThread()
	unix.SetfsgidRetGid(int(who.Gid))
	defer unix.SetfsgidRetGid(os.Getgid())
	unix.SetfsuidRetUid(int(who.Uid))
	defer unix.SetfsuidRetUid(os.Getuid())
	return os.OpenFile(path, flags, 0)
}
