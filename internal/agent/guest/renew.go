package guest

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Renew gives the machine its own clock, random pool, machine-id and host name. Each of them must succeed.
func (p *place) Renew(m *agentv1.RenewRequest) error {
	if err := stir(m.Entropy); err != nil {
		return fmt.Errorf("renew the random pool: %w", err)
	}
	now := unix.NsecToTimespec(m.UnixNanos)
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	if err := unix.Sethostname([]byte(m.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	root, err := p.Root()
	if err != nil {
		return err
	}
	for _, f := range []struct{ path, content string }{
		{"/etc/machine-id", m.MachineId + "\n"},
		{"/etc/hostname", m.Hostname + "\n"},
		{"/etc/hosts", "127.0.0.1 localhost " + m.Hostname + "\n::1 localhost ip6-localhost ip6-loopback\n"},
	} {
		if err := agent.Replace(root, f.path, f.content); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	}
	return nil
}

// stir adds entropy to the kernel's pool, credits it, and has the generator start from it: two machines from one template share all that was in it before.
func stir(entropy []byte) error {
	random, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer random.Close()
	// struct rand_pool_info of linux/random.h: bits, bytes, the bytes
	info := make([]byte, 8+(len(entropy)+3)/4*4)
	binary.NativeEndian.PutUint32(info, uint32(8*len(entropy)))
	binary.NativeEndian.PutUint32(info[4:], uint32(len(entropy)))
	copy(info[8:], entropy)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, random.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&info[0]))); errno != 0 {
		return os.NewSyscallError("RNDADDENTROPY", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, random.Fd(), rndReseedCRNG, 0); errno != 0 {
		return os.NewSyscallError("RNDRESEEDCRNG", errno)
	}
	return nil
}

// rndReseedCRNG is RNDRESEEDCRNG of linux/random.h, _IO('R', 0x07).
const rndReseedCRNG = 0x5207
