// Package remote is a supervisor seen from the pyros that use its machine: where it is found, how it is started and how it is talked to.
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
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Folder is that of a workspace. In it are
//
//	lock             held by whoever changes what the workspace is: creates, starts, stops, resets or deletes it, or takes a snapshot of it stopped
//	disks.lock       held by whoever adds to the disks what the database does not name yet, or removes what it does not name
//	use.lock         held by whoever uses the machine, and alone by a supervisor that finds that nobody does and pauses it
//	supervisor.lock  held by the supervisor as long as it lives
//	socket           where it is talked to
//	processes        those of the machine, which may outlive a supervisor that is killed, for a moment
//	machine/         what its machine needs while it runs
//	end.json         why the last machine ended, unless its supervisor was killed
//	log              what the supervisor said
//	disks/           see internal/storage
type Folder string

// LifecycleLock is the name of the lock of whoever changes what a workspace is.
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

// Machine is where the machine has what it needs.
func (f Folder) Machine() string { return filepath.Join(string(f), "machine") }

// DisksPath is where the disks are.
func (f Folder) DisksPath() string { return filepath.Join(string(f), "disks") }

// takePatience is how long the lock of the supervisor is tried for. Those who look whether there is one hold it for a moment.
const takePatience = time.Second

// Take takes the lock of the supervisor. Precondition where there is one already.
func (f Folder) Take() (*flock.Lock, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), takePatience, flock.ErrHeld)
	defer cancel()
	lock, err := flock.Take(ctx, f.path(supervisorLock), flock.Exclusive, nil)
	if errors.Is(err, flock.ErrHeld) {
		return nil, fault.New(fault.Precondition, "start workspace", filepath.Base(string(f)), "it runs already")
	}
	return lock, fault.Wrap(err, "start workspace", filepath.Base(string(f)))
}

// use says that the machine is used, for as long as the lock is held. Nil where there is no such folder.
func (f Folder) use(ctx context.Context) (*flock.Lock, error) {
	lock, err := flock.Take(ctx, f.path(useLock), flock.Shared, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return lock, fault.Wrap(err, "use workspace", filepath.Base(string(f)))
}

// Unused takes the locks of whoever uses the workspace, and of whoever changes what it is: a supervisor may pause it as long as they are held. ErrHeld: somebody has them.
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

// TakeDisks takes the lock of whoever changes which disks there are. It is held for as long as that takes, by a supervisor too; who holds it waits for no other
// lock.
func (f Folder) TakeDisks(ctx context.Context) (*flock.Lock, error) {
	lock, err := flock.Take(ctx, f.path(disksLock), flock.Exclusive, nil)
	return lock, fault.Wrap(err, "lock the disks of workspace", filepath.Base(string(f)))
}

// Running tells whether the workspace has a supervisor, or a process of its machine that has not ended yet: for as long its disks are in use.
func (f Folder) Running() bool {
	held, err := flock.Held(f.path(supervisorLock))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return held || err != nil || len(f.processes()) > 0 // where it can't be told that is no reason to touch the disks
}

// Alive tells whether the workspace has a machine, or one that is being started: its supervisor lives, and of the processes that it has noted one does. A machine that has
// ended is not alive while its supervisor still tidies up after it, but Running tells of that.
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

// WriteProcesses notes the processes of the machine, before anything is written to the disks.
func (f Folder) WriteProcesses(pids []int) error {
	var text strings.Builder
	for _, pid := range pids {
		if born, ok := bornAt(pid); ok {
			fmt.Fprintln(&text, pid, born)
		}
	}
	return os.WriteFile(f.path(processesFile), []byte(text.String()), 0o600)
}

// processes gives those of the machine that were noted and have not ended.
func (f Folder) processes() (alive []int) {
	text, err := os.ReadFile(f.path(processesFile))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		var pid int
		var born string
		if n, _ := fmt.Sscan(line, &pid, &born); n == 2 {
			if now, ok := bornAt(pid); ok && now == born {
				alive = append(alive, pid)
			}
		}
	}
	return alive
}

// bornAt tells when a process was started, in the kernel's own measure, by which it is told from another one of the same number.
func bornAt(pid int) (string, bool) {
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

// AwaitMachine waits until the processes of an earlier machine have ended, killing those that are left: they die with their supervisor, but not before the kernel
// has finished what they were writing.
func (f Folder) AwaitMachine(ctx context.Context) error {
	for {
		alive := f.processes()
		if len(alive) == 0 {
			return nil
		}
		for _, pid := range alive {
			unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "start workspace", filepath.Base(string(f)), "its last machine has not ended yet (process %d)", alive[0])
		}
	}
}

// Remove removes the folder with all that is in it. The caller has taken LifecycleLock, which goes last: who finds the folder meanwhile, and looks whether it was left
// behind, finds an owner.
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
	if err := remove(string(f)); !errors.Is(err, syscall.ENOTEMPTY) { // else somebody has locked it anew, and finds out that it is nothing
		return err
	}
	return nil
}

// Clear removes what the last supervisor left. The caller has taken the lock.
func (f Folder) Clear() error {
	return errors.Join(remove(f.path(socketName)), remove(f.path(endFile)), remove(f.path(processesFile)))
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// NetworkLog is what the machines of the workspace did on their network (internal/transcript), one [network.Record] as JSON a line.
func (f Folder) NetworkLog() string { return f.path("network.log") }

func (f Folder) path(name string) string { return filepath.Join(string(f), name) }

// ServiceLogBytes is about how much of each stream of a service is kept.
const ServiceLogBytes = 1 << 20

// ServiceFolder is where what a service printed is.
type ServiceFolder string

// Service is the folder of a service, whose name has been checked.
func (f Folder) Service(name string) ServiceFolder { return ServiceFolder(f.path("services/" + name)) }

// Services is where those of all services are.
func (f Folder) Services() string { return f.path("services") }

// Path, Stdout and Stderr are the folder's, and those of its logs (see internal/transcript).
func (s ServiceFolder) Path() string   { return string(s) }
func (s ServiceFolder) Stdout() string { return filepath.Join(string(s), "stdout") }
func (s ServiceFolder) Stderr() string { return filepath.Join(string(s), "stderr") }

// Logs are those of both streams.
func (s ServiceFolder) Logs() [2]string { return [2]string{s.Stdout(), s.Stderr()} }

var serviceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckServiceName refuses what can't be the name of a service.
func CheckServiceName(name string) error {
	if !serviceName.MatchString(name) {
		return fault.Newf(fault.Invalid, "the name of a service is 1 to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit: %q is not",
			name[:min(len(name), 128)])
	}
	return nil
}

// End is why a machine ended.
type End struct {
	Reason  string    `json:"reason"`
	Expired bool      `json:"expired,omitempty"`
	At      time.Time `json:"at"`
}

// WriteEnd keeps why the machine ended.
func (f Folder) WriteEnd(e End) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	part := f.path(endFile + ".part")
	if err := os.WriteFile(part, b, 0o600); err != nil {
		return err
	}
	return os.Rename(part, f.path(endFile))
}

// ended tells whether it is known why the last machine ended.
func (f Folder) ended() bool {
	_, err := os.Lstat(f.path(endFile))
	return err == nil
}

// LastEnd tells why the last machine ended. Where nobody has written it down, its supervisor was killed, or the host went down.
func (f Folder) LastEnd() End {
	b, err := os.ReadFile(f.path(endFile))
	var e End
	if err != nil || len(b) > maxEnd || json.Unmarshal(b, &e) != nil {
		return End{Reason: "its supervisor was killed"}
	}
	e.Reason = fault.Printable(e.Reason)
	return e
}

// Order is what a supervisor is told by whoever starts it.
type Order struct {
	Dirs      dirs.Dirs
	Folder    string
	Blocks    bool // how the disks are stored
	Workspace store.Workspace
}

// Disks are the workspace's.
func (o Order) Disks() storage.Folder {
	return DisksOf(o.Dirs, Folder(o.Folder), o.Blocks, o.Workspace.Spec)
}

// DisksOf returns the disks of a workspace of spec that has the folder f. On the host their size is not limited.
func DisksOf(d dirs.Dirs, f Folder, blocks bool, spec store.Spec) storage.Folder {
	disks := storage.Folder{Path: f.DisksPath(), Blocks: blocks, Shared: d.Volumes()}
	if spec.Isolation != string(machine.None) {
		disks.Bytes = int64(spec.Disk()) << 20
	}
	return disks
}
