package guest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// bootFile is where a kernel tells its boot id. It makes one when it is first asked, and no other ever after.
const bootFile = "/proc/sys/kernel/random/boot_id"

// newBoot gives a machine that has become another one, as a copy of a running machine does, a boot id that no other has.
func (p *place) newBoot(m *agentv1.RenewRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ownKernel || p.identity == nil || p.identity.MachineId == m.MachineId {
		return nil
	}
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	p.bootID = fmt.Sprintf("%x-%x-%x-%x-%x\n", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	if p.room == nil || p.room.over() {
		return nil // it is told when it is made
	}
	return p.room.thread.Do(func() error { return tellBootID(p.bootID) })
}

// tellBootID has processes see a boot id. The calling thread sees what they see.
func tellBootID(id string) error {
	const place = "/run/.boot_id"
	if err := unix.Unmount(bootFile, unix.MNT_DETACH); err != nil && err != unix.EINVAL { // what was mounted there for who this machine was
		return os.NewSyscallError("umount", err)
	}
	err := os.Remove(place)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(place, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = f.WriteString(id)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.NewSyscallError("mount", unix.Mount(place, bootFile, "", unix.MS_BIND, ""))
	}
	return errors.Join(err, os.Remove(place)) // what is mounted stays
}
