package guest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience bounds how long killed processes are waited for before the disks are put to rest. The
// kernel of an emulated machine takes seconds for thousands of them, and they can do nothing any more.
// A sandbox has no disks that they could keep busy.
const (
	killPatience        = 1500 * time.Millisecond
	killPatienceSandbox = 300 * time.Millisecond
)

// Quiesce kills the keeper, and all processes with it, and has everything on the disks.
func (p *place) Quiesce(ctx context.Context) error {
	p.mu.Lock()
	p.quiesced = true
	room, v, rooted := p.room, p.volume, p.rooted
	p.mu.Unlock()
	killed := true
	if room != nil {
		patience := killPatience
		if !p.ownKernel {
			patience = killPatienceSandbox
		}
		killing, cancel := context.WithTimeout(ctx, patience)
		err := room.end(killing)
		cancel()
		if err != nil && ctx.Err() != nil {
			return err
		}
		killed = err == nil
	}
	var err error
	if v != nil {
		closing, cancel := context.WithTimeout(ctx, closePatience)
		defer cancel()
		err = v.Close(closing)
		if p.ownKernel {
			settled := settle(ctx, volumeRoot, killed)
			if err == context.DeadlineExceeded {
				err = nil
			}
			err = errors.Join(err, settled)
		}
	}
	if rooted && p.ownKernel {
		err = errors.Join(err, settle(ctx, envRoot, killed))
	}
	return err
}

// end kills all processes of a room, and takes away what they have mounted. Its root stays open: a call may be using it.
func (r *room) end(ctx context.Context) error {
	if !r.over() {
		syscall.Kill(r.keeper.PID(), syscall.SIGKILL)
	}
	select {
	case <-r.gone:
		r.ended.Do(r.thread.Stop)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill all processes: %w", context.Cause(ctx))
	}
}

// How long a file system is asked to be read-only that is still in use, and how often.
const (
	settlePatience = 3 * time.Second
	settleEvery    = 20 * time.Millisecond
)

// settle has a file system on its disk, and nothing written to it any more: it becomes read-only, as it is where it is not mounted. Where something in the kernel
// keeps a file open that may be written to, a loop device for one, it is frozen instead: at once where processes are still there (killed is false).
func settle(ctx context.Context, path string, killed bool) error {
	for began := time.Now(); ; {
		err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOATIME, "")
		switch {
		case err == nil:
			return nil
		case err != unix.EBUSY:
			return fmt.Errorf("make %s read-only: %w", path, err)
		case !killed || time.Since(began) > settlePatience:
			return on(path, freeze)
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			return fmt.Errorf("make %s read-only: %w", path, context.Cause(ctx))
		}
	}
}
