package guest

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// devices are the nodes in /dev that every program can expect. The nodes for the machine's disks
// and link are not in the list.
var devices = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

var deviceLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}

// makeDevices creates device nodes and links in an empty folder.
func makeDevices(dev string) error {
	for _, d := range devices {
		path := filepath.Join(dev, d.name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil { // regardless of the umask
			return err
		}
	}
	return linkDevices(dev)
}

func linkDevices(dev string) error {
	for name, target := range deviceLinks {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// outerDevices maps the names of device nodes to descriptors of mounts. Each mount contains one
// device node and is not attached to a path. In a user namespace, mknod is forbidden, but these
// mounts are allowed.
type outerDevices map[string]int

// openDevices opens mounts of the device nodes in a folder.
func openDevices(dev string) (outerDevices, error) {
	all := outerDevices{}
	for _, d := range devices {
		path := filepath.Join(dev, d.name)
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			all.close()
			return nil, fmt.Errorf("take %s: %w", path, err)
		}
		all[d.name] = fd
	}
	return all, nil
}

// bind attaches the device nodes in an empty folder, and makes the links.
func (all outerDevices) bind(dev string) error {
	for name, fd := range all {
		path := filepath.Join(dev, name)
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			return err
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("bind %s: %w", path, err)
		}
	}
	return linkDevices(dev)
}

func (all outerDevices) close() {
	for _, fd := range all {
		unix.Close(fd)
	}
}
