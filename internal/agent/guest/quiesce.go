package guest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Time limits of Quiesce. The kill timeouts limit the wait for killed processes. The kernel of an
// emulated machine takes seconds to end thousands of them, but they can no longer do anything.
// Without Abilities.Disks, the agent has no disk that they could keep busy, so the wait is shorter.
const (
	killTimeout         = 1500 * time.Millisecond
	killTimeoutDiskless = 300 * time.Millisecond
	readOnlyTimeout     = 3 * time.Second // time to make a file system read-only that is still in use
	readOnlyEvery       = 20 * time.Millisecond
	closeTimeout        = 8 * time.Second // time for running calls on the volume to end
)

// Quiesce kills all processes and flushes the disks.
func (e *execEnv) Quiesce(ctx context.Context) error {
	e.mu.Lock()
	e.quiesced = true
	ns, v, rooted := e.ns, e.volume, e.rooted
	e.mu.Unlock()
	killed := true
	if ns != nil {
		timeout := killTimeout
		if !e.abilities.Disks {
			timeout = killTimeoutDiskless
		}
		killing, cancel := context.WithTimeout(ctx, timeout)
		err := ns.end(killing)
		cancel()
		if err != nil && ctx.Err() != nil {
			return err
		}
		killed = err == nil
	}
	var err error
	if v != nil {
		closing, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		err = v.Close(closing)
		if e.abilities.Disks {
			failed := makeReadOnly(ctx, volumeRoot, killed)
			if err == context.DeadlineExceeded {
				err = nil // the disk can become read-only although a call still reads
			}
			err = errors.Join(err, failed)
		}
	}
	if rooted && e.abilities.Disks {
		err = errors.Join(err, makeReadOnly(ctx, envRoot, killed))
	}
	return err
}

// end kills all processes of a namespace. The root of the namespace stays open, because a call
// might use it.
func (n *namespace) end(ctx context.Context) error {
	if !n.dead() {
		syscall.Kill(n.init.PID(), syscall.SIGKILL)
	}
	select {
	case <-n.gone:
		n.ended.Do(n.thread.Stop)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill all processes: %w", context.Cause(ctx))
	}
}

// makeReadOnly flushes a file system and makes it read-only. This fails while a file is open for
// writing, which can be the kernel's own file for a loop device. After readOnlyTimeout,
// makeReadOnly freezes the file system instead. If killed is false, processes still run, so it
// freezes immediately.
func makeReadOnly(ctx context.Context, path string, killed bool) error {
	for began := time.Now(); ; {
		err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOATIME, "")
		switch {
		case err == nil:
			return nil
		case err != unix.EBUSY:
			return fmt.Errorf("make %s read-only: %w", path, err)
		case !killed || time.Since(began) > readOnlyTimeout:
			return on(path, freeze)
		}
		select {
		case <-time.After(readOnlyEvery):
		case <-ctx.Done():
			return fmt.Errorf("make %s read-only: %w", path, context.Cause(ctx))
		}
	}
}
