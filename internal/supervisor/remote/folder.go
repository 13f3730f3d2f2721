// Package remote is the client side of a supervisor. Processes that use a machine find, start and
// call its supervisor with this package.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Folder is the folder of a workspace. It contains:
//
//	lock             locked during creation, start, stop, reset, deletion and offline snapshots.
//	disks.lock       locked while the disks can differ from their list in the database.
//	use.lock         shared by clients, locked exclusively by a supervisor that pauses.
//	supervisor.lock  locked by the supervisor as long as it runs.
//	socket           the supervisor's service.
//	processes        the machine's processes, which can outlive a killed supervisor briefly.
//	machine/         files of the running machine.
//	end.json         why the last machine ended, missing if its supervisor was killed.
//	log              the supervisor's log.
//	disks/           see internal/storage.
type Folder string

// LifecycleLock is the file name of the lock that protects changes to a workspace.
const LifecycleLock = "lock"

const (
	supervisorLock = "supervisor.lock"
	useLock        = "use.lock"
	disksLock      = "disks.lock"
	socketName     = "socket"
	processesFile  = "processes"
	endFile        = "end.json"
	logFile        = "log"
	maxEnd         = 64 << 10
)

// Machine returns the path of the running machine's folder.
func (f Folder) Machine() string { return filepath.Join(string(f), "machine") }

// DisksPath returns the path of the folder with the disks.
func (f Folder) DisksPath() string { return filepath.Join(string(f), "disks") }

// takeTimeout is how long Take tries to lock the file, because Running and Alive lock it for a
// moment too.
const takeTimeout = time.Second

// Take locks the supervisor's lock. The error has kind Precondition if the workspace already has a
// supervisor.
func (f Folder) Take() (*flock.Lock, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), takeTimeout, flock.ErrHeld)
	defer cancel()
	lock, err := flock.Take(ctx, f.path(supervisorLock), flock.Exclusive, nil)
	if errors.Is(err, flock.ErrHeld) {
		return nil, fault.New(fault.Precondition, "start workspace", filepath.Base(string(f)), "it is already running")
	}
	return lock, fault.Wrap(err, "start workspace", filepath.Base(string(f)))
}

// use locks the shared lock of clients. It returns nil and no error if the folder does not exist.
func (f Folder) use(ctx context.Context) (*flock.Lock, error) {
	lock, err := flock.Take(ctx, f.path(useLock), flock.Shared, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return lock, fault.Wrap(err, "use workspace", filepath.Base(string(f)))
}

// Unused locks the clients' lock exclusively, and the lifecycle lock. A supervisor needs both locks
// to pause the workspace. The error is flock.ErrHeld if the workspace is in use.
func (f Folder) Unused() (release func(), err error) {
	change, err := flock.Try(f.path(LifecycleLock), flock.Exclusive)
	if err != nil {
		return nil, err
	}
	use, err := flock.Try(f.path(useLock), flock.Exclusive)
	if err != nil {
		change.Release()
		return nil, err
	}
	return func() {
		use.Release()
		change.Release()
	}, nil
}

// TakeDisks locks the list of disks for changes. To avoid deadlocks, its holder must not wait for
// another lock file.
func (f Folder) TakeDisks(ctx context.Context) (*flock.Lock, error) {
	lock, err := flock.Take(ctx, f.path(disksLock), flock.Exclusive, nil)
	return lock, fault.Wrap(err, "lock the disks of workspace", filepath.Base(string(f)))
}

// Running reports whether the supervisor or a process of the machine still runs. While one of them
// runs, the disks are in use.
func (f Folder) Running() bool {
	held, err := flock.Held(f.path(supervisorLock))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return held || err != nil || len(f.processes()) > 0 // if the state is unknown, the disks count as in use
}

// Alive reports whether the workspace has a machine that is starting, or a process of its machine
// that runs. While a supervisor cleans up after its machine, Alive returns false and Running
// returns true.
func (f Folder) Alive() bool {
	held, err := flock.Held(f.path(supervisorLock))
	if err != nil {
		return f.Running()
	}
	if !held {
		return len(f.processes()) > 0
	}
	text, err := os.ReadFile(f.path(processesFile))
	return err != nil || len(text) == 0 || len(f.processes()) > 0
}

// WriteProcesses records the processes of the machine. The supervisor calls it before the machine
// writes to the disks.
func (f Folder) WriteProcesses(pids []int) error {
	var text strings.Builder
	boot := bootID()
	for _, pid := range pids {
		if started, ok := startTime(pid); ok {
			fmt.Fprintln(&text, pid, started, boot)
		}
	}
	return os.WriteFile(f.path(processesFile), []byte(text.String()), 0o600)
}

// processes returns the recorded processes that still run.
func (f Folder) processes() (alive []int) {
	text, err := os.ReadFile(f.path(processesFile))
	if err != nil {
		return nil
	}
	thisBoot := bootID()
	for line := range strings.Lines(string(text)) {
		var pid int
		var started, boot string
		// Older versions did not write the boot.
		if n, _ := fmt.Sscan(line, &pid, &started, &boot); n == 2 || n == 3 && boot == thisBoot {
			if now, ok := startTime(pid); ok && now == started {
				alive = append(alive, pid)
			}
		}
	}
	return alive
}

// bootID identifies this boot of the host. After another boot, any process can have the same PID
// and start time.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// startTime returns the start time of a process in clock ticks. With the start time, a later
// process with the same PID can be distinguished.
func startTime(pid int) (string, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", false
	}
	return fields[19], true
}

// AwaitMachine kills the processes of an earlier machine, and waits until they have ended. They die
// with their supervisor, but the kernel might still be finishing their writes.
func (f Folder) AwaitMachine(ctx context.Context) error {
	for {
		alive := f.processes()
		if len(alive) == 0 {
			return nil
		}
		for _, pid := range alive {
			unix.Kill(pid, unix.SIGKILL)
		}
		if f.awaitProcess(ctx, alive[0]) != nil {
			return fault.New(fault.Unavailable, "start workspace", filepath.Base(string(f)), "its last machine has not ended yet (process %d)", alive[0])
		}
	}
}

// Remove removes the folder. The caller has locked LifecycleLock. Remove deletes that file last, so
// other processes see until then that the folder is in use.
func (f Folder) Remove(ctx context.Context) error {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != LifecycleLock {
			err = cmp.Or(err, tree.Remove(ctx, f.path(e.Name())))
		}
	}
	if err = cmp.Or(err, remove(f.path(LifecycleLock))); err != nil {
		return err
	}
	// If the folder is not empty, another process has just created and locked LifecycleLock. That
	// process finds that the workspace no longer exists.
	if err := remove(string(f)); !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}

// Clear removes the files of the last supervisor. The caller has locked the supervisor's lock.
func (f Folder) Clear() error {
	return errors.Join(remove(f.path(socketName)), remove(f.path(endFile)), remove(f.path(processesFile)))
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// NetworkLog returns the path of the network log. The log is a program.LogFile. Each line contains
// one [network.Record] as JSON.
func (f Folder) NetworkLog() string { return f.path("network.log") }

func (f Folder) path(name string) string { return filepath.Join(string(f), name) }

// ServiceLogBytes is the approximate number of bytes that are kept of each stream of a service.
const ServiceLogBytes = 1 << 20

// ServiceFolder is the folder with the logs of one service.
type ServiceFolder string

// Service returns the folder of a service. The caller has checked the name.
func (f Folder) Service(name string) ServiceFolder { return ServiceFolder(f.path("services/" + name)) }

// Services returns the path of the folder of all services.
func (f Folder) Services() string { return f.path("services") }

// Path returns the path of the folder. Stdout and Stderr return the paths of its logs (see
// program.LogFile).
func (s ServiceFolder) Path() string   { return string(s) }
func (s ServiceFolder) Stdout() string { return filepath.Join(string(s), "stdout") }
func (s ServiceFolder) Stderr() string { return filepath.Join(string(s), "stderr") }

// Logs returns the paths of both logs.
func (s ServiceFolder) Logs() [2]string { return [2]string{s.Stdout(), s.Stderr()} }

var serviceName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckServiceName returns an error if a service can't have this name.
func CheckServiceName(name string) error {
	if !serviceName().MatchString(name) {
		return fault.Newf(fault.Invalid, "%q is not a valid name of a service: it must have 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit",
			name[:min(len(name), 128)])
	}
	return nil
}

// End records the end of a machine and its reason.
type End struct {
	Reason  string    `json:"reason"`
	Expired bool      `json:"expired,omitempty"`
	At      time.Time `json:"at"`
}

// WriteEnd records the end of the machine.
func (f Folder) WriteEnd(e End) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return durable.Replacement{Unflushed: true}.Write(f.path(endFile), b)
}

// ended reports whether the reason of the last end has been recorded.
func (f Folder) ended() bool {
	_, err := os.Lstat(f.path(endFile))
	return err == nil
}

// LastEnd returns the record of the last machine's end. If there is no record, the supervisor was
// killed or the host crashed.
func (f Folder) LastEnd() End {
	b, err := os.ReadFile(f.path(endFile))
	var e End
	if err != nil || len(b) > maxEnd || json.Unmarshal(b, &e) != nil {
		return End{Reason: "its supervisor was killed"}
	}
	e.Reason = fault.Printable(e.Reason)
	return e
}

// StartConfig is the configuration that a starting supervisor reads.
type StartConfig struct {
	Dirs      dirs.Dirs
	Folder    string
	Blocks    bool // whether the disks are block storage
	Workspace store.Workspace
}

// Disks describes the folder of the workspace's disks.
func (o StartConfig) Disks() storage.Folder {
	return DisksOf(o.Dirs, Folder(o.Folder), o.Blocks, o.Workspace.Spec)
}

// DisksOf describes the folder of a workspace's disks. If the workspace runs without isolation, the
// size of its disks is not limited.
func DisksOf(d dirs.Dirs, f Folder, blocks bool, spec store.Spec) storage.Folder {
	disks := storage.Folder{Path: f.DisksPath(), Blocks: blocks, Shared: d.Volumes()}
	disks.Links = spec.Isolation == string(machine.GVisor) // only its gofer copies shared files before they change
	if spec.Isolation != string(machine.None) {
		disks.Bytes = int64(spec.Disk()) << 20
	}
	return disks
}
