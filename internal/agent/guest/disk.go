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

// Serial numbers of the machine's disks.
const (
	rootSerial   = "root"
	volumeSerial = "volume"
	sharedSerial = "window"
)

// findDisk returns the device with a serial number, or the empty string if there is none.
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

// await waits until a device appears.
func await(path string) error {
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		_, err := os.Stat(path)
		if err == nil {
			return nil
		}
		if time.Since(began) > deviceTimeout {
			return fmt.Errorf("the device did not appear: %w", err)
		}
	}
}

// mountDisk mounts a disk. It first drops the kernel's cache of the device. That cache can contain
// data of another disk that the machine had before it was saved.
func mountDisk(device, at string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := control(f, unix.BLKFLSBUF); err != nil {
		return fmt.Errorf("drop the cache of %s: %w", device, err)
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

// control calls ioctl with a request that ignores its argument.
func control(f *os.File, request uintptr) error {
	var argument int
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&argument))); errno != 0 {
		return errno
	}
	return nil
}
