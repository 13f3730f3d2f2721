package process

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Open opens a file in /proc/PID, for example the program's memory. The kernel allows this to the
// program's parent and to root. But in containers root might lack CAP_SYS_PTRACE. Then Open uses
// the program's user ID.
func (p *Process) Open(name string, flags int) (*os.File, error) {
	path := "/proc/" + strconv.Itoa(p.PID()) + "/" + name
	f, err := os.OpenFile(path, flags, 0)
	credential := p.cmd.SysProcAttr.Credential
	if !errors.Is(err, fs.ErrPermission) || os.Getuid() != 0 || credential == nil || len(p.cmd.SysProcAttr.UidMappings) > 0 {
		return f, err
	}
	runtime.LockOSThread() // the kernel stores the file system user ID per thread
	defer runtime.UnlockOSThread()
	unix.SetfsgidRetGid(int(credential.Gid))
	defer unix.SetfsgidRetGid(os.Getgid())
	unix.SetfsuidRetUid(int(credential.Uid))
	defer unix.SetfsuidRetUid(os.Getuid())
	return os.OpenFile(path, flags, 0)
}
