package qemu

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

var kvmDevice = "/dev/kvm" // a variable for tests

// kvmUsable checks /dev/kvm as far as possible without booting a kernel.
func kvmUsable() error {
	f, err := os.OpenFile(kvmDevice, os.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fault.New(fault.Unavailable, "open", kvmDevice, "this host has no hardware virtualisation, or its kvm module is not loaded")
	case errors.Is(err, os.ErrPermission):
		return fault.New(fault.Permission, "open", kvmDevice, "you are not allowed to use it").WithHint("sudo usermod -aG kvm $USER, then log in again")
	case err != nil:
		return fault.Wrap(err, "open", kvmDevice)
	}
	f.Close()
	if os.Getuid() != 0 { // QEMU runs as the same user, who could just open the device
		return nil
	}
	_, err = kvmGroup()
	return err
}

// kvmGroup returns the group that an unprivileged QEMU needs to open /dev/kvm by name, or 0 if
// everybody can open it.
func kvmGroup() (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(kvmDevice, &st); err != nil {
		return 0, err
	}
	switch {
	case st.Mode&0o006 == 0o006:
		return 0, nil
	case st.Mode&0o060 == 0o060 && st.Gid != 0:
		return int(st.Gid), nil
	}
	return 0, fault.New(fault.Permission, "open", kvmDevice, "only root may use it, and QEMU does not run as root").
		WithHint("sudo groupadd -f kvm && sudo chgrp kvm /dev/kvm && sudo chmod 660 /dev/kvm")
}
