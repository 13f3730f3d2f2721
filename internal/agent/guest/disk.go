package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
)

// What the machine's disks are called.
const (
	rootSerial   = "root"
	volumeSerial = "volume"
	windowSerial = "window"
)

// findDisk gives the device of a disk; empty: there is none.
func findDisk(serial string) (device string, err error) {
	names, err := filepath.Glob("/sys/block/vd*/serial")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(b)) == serial {
			return "/dev/" + filepath.Base(filepath.Dir(name)), nil
		}
	}
	return "", nil
}

// mountRoot mounts the environment.
func mountRoot() error {
	device, err := findDisk(rootSerial)
	if err != nil {
		return err
	}
	if device == "" {
		device = rootDevice
	}
	if err := await(device); err != nil {
		return err
	}
	return mountDisk(device, envRoot)
}

// await waits for a device to appear.
func await(path string) error {
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		_, err := os.Stat(path)
		if err == nil {
			return nil
		}
		if time.Since(began) > devicePatience {
			return fmt.Errorf("the device did not appear: %w", err)
		}
	}
}

// mountDisk mounts a disk. What the kernel has kept of it is forgotten first: it may be that of another disk, which the machine had before it was saved.
func mountDisk(device, at string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := control(f, unix.BLKFLSBUF); err != nil {
		return fmt.Errorf("forget what was on %s: %w", device, err)
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	err = unix.Mount(device, at, "ext4", unix.MS_NOATIME, "")
	if err == unix.EINVAL {
		return fmt.Errorf("%w: there is no file system on %s", agent.ErrNotReady, device)
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return nil
}

// control makes a call of ioctl whose argument says nothing.
func control(f *os.File, request uintptr) error {
	var argument int
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&argument))); errno != 0 {
		return errno
	}
	return nil
}
