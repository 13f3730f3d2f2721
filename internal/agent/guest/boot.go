package guest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// bootFile contains the kernel's boot ID. After the first read, the kernel never changes this ID.
const bootFile = "/proc/sys/kernel/random/boot_id"

// newBoot sets a new boot ID if the machine was restored or forked from a saved machine.
func (e *execEnv) newBoot(m *agentv1.RenewRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.abilities.Clock || e.identity == nil || e.identity.MachineId == m.MachineId {
		return nil
	}
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	e.bootID = fmt.Sprintf("%x-%x-%x-%x-%x\n", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	if e.ns == nil || e.ns.dead() {
		return nil // the next namespace gets the new boot ID
	}
	return e.ns.thread.Do(func() error { return mountBootID(e.bootID) })
}

// mountBootID mounts a file with a boot ID over the kernel's file. It does so in the mount
// namespace of the calling thread.
func mountBootID(id string) error {
	const path = "/run/.boot_id"
	if err := unix.Unmount(bootFile, unix.MNT_DETACH); err != nil && err != unix.EINVAL { // the mount from the saved machine
		return os.NewSyscallError("umount", err)
	}
	err := os.Remove(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = f.WriteString(id)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.NewSyscallError("mount", unix.Mount(path, bootFile, "", unix.MS_BIND, ""))
	}
	return errors.Join(err, os.Remove(path)) // the mount keeps the file without its name
}
