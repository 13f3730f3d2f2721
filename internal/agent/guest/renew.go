package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Renew sets the clock, machine ID, host name and network of the machine, and reseeds its random
// pool. If one step fails, Renew fails.
func (e *execEnv) Renew(m *agentv1.RenewRequest) error {
	if e.abilities.Clock {
		if err := addEntropy(m.Entropy); err != nil {
			return fmt.Errorf("renew the random pool: %w", err)
		}
		now := unix.NsecToTimespec(m.UnixNanos)
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
			return fmt.Errorf("set the clock: %w", err)
		}
	}
	if err := unix.Sethostname([]byte(m.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if e.abilities.Network && m.Network != nil {
		if err := e.connect(m.Network); err != nil {
			return fmt.Errorf("configure the network: %w", err)
		}
	}
	if err := e.newBoot(m); err != nil {
		return fmt.Errorf("renew the boot id: %w", err)
	}
	e.mu.Lock()
	e.identity = m
	e.mu.Unlock()
	root, err := e.Root()
	if errors.Is(err, agent.ErrNotReady) {
		return nil // Mount writes the identity later
	}
	if err != nil {
		return err
	}
	if err := e.removeKeys(root, m); err != nil {
		return fmt.Errorf("remove the host keys of the environment: %w", err)
	}
	return identify(root, m)
}

// removeKeys removes the SSH host keys of an environment, because all machines with that
// environment would share them. Keys that this machine has created later stay.
func (e *execEnv) removeKeys(root int, m *agentv1.RenewRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !m.FreshRoot || e.keyless == m.MachineId {
		return nil
	}
	if err := volume.RemoveMatching(root, "/etc/ssh", "ssh_host_*_key*"); err != nil {
		return err
	}
	e.keyless = m.MachineId
	return nil
}

// identify writes the machine ID, host name and name servers to files of the machine's root. It
// leaves out files that programs of the machine have made unusable, because otherwise the machine
// could never start again.
func identify(root int, m *agentv1.RenewRequest) error {
	type file struct{ path, content string }
	files := []file{
		{"/etc/machine-id", m.MachineId + "\n"},
		{"/etc/hostname", m.Hostname + "\n"},
	}
	hosts, err := volume.ReadSmall(root, "/etc/hosts")
	switch {
	case err == nil:
		files = append(files, file{"/etc/hosts", withName(hosts, m.Hostname)})
	case !unusable(err):
		return err
	}
	// In most environments this file is a link to /etc/machine-id, or missing.
	if dbus, err := volume.ReadSmall(root, dbusMachineID); err == nil && dbus != "" {
		files = append(files, file{dbusMachineID, m.MachineId + "\n"})
	}
	if text, err := volume.ReadSmall(root, resolvConf); m.Network != nil && (err != nil || text != nameServers(m.Network.Dns)) {
		// This file is often a link to a resolver's file in /run, which is still empty at this
		// point.
		if err := volume.Unlink(root, resolvConf); err != nil && !unusable(err) {
			return err
		}
		files = append(files, file{resolvConf, nameServers(m.Network.Dns)})
	}
	for _, f := range files {
		if err := volume.WriteSmall(root, f.path, f.content); err != nil && !unusable(err) {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	}
	return nil
}

// unusable reports whether an error means that a path can't be read or written as a small file. The
// causes are a directory, a pipe, a loop of links, a size of many megabytes, and the attributes of
// chattr(1).
func unusable(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && slices.Contains([]unix.Errno{unix.EISDIR, unix.ENXIO, unix.ENODEV, unix.ELOOP, unix.EFBIG, unix.EPERM, unix.EACCES}, errno)
}

// Files that identify writes only in some machines.
const (
	dbusMachineID = "/var/lib/dbus/machine-id"
	resolvConf    = "/etc/resolv.conf"
)

// nameServers returns the content of /etc/resolv.conf.
func nameServers(addresses []string) string {
	var b strings.Builder
	for _, a := range addresses {
		b.WriteString("nameserver " + a + "\n")
	}
	return b.String()
}

// ownAddress is the address for the machine's own name in /etc/hosts, as in Debian.
const ownAddress = "127.0.1.1"

// withName returns the content of /etc/hosts with the machine's name. It replaces the line of an
// earlier name, and does not change other lines.
func withName(hosts, name string) string {
	var b strings.Builder
	localhost := false
	for line := range strings.Lines(hosts) {
		entry, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(entry)
		if len(fields) > 0 && fields[0] == ownAddress {
			continue
		}
		localhost = localhost || slices.Contains(fields, "localhost")
		b.WriteString(strings.TrimRight(line, "\n") + "\n")
	}
	if !localhost {
		b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	}
	b.WriteString(ownAddress + " " + name + "\n")
	return b.String()
}

// addEntropy adds entropy to the kernel's random pool, credits it and reseeds the generator. Until
// then, two machines from the same template produce the same random numbers.
func addEntropy(entropy []byte) error {
	random, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer random.Close()
	// struct rand_pool_info of linux/random.h: number of bits, number of bytes, the bytes
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
