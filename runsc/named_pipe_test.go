package main

import (
	"testing"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/kernel/pipe"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/waiter"
)

// interrupted is the context of a task whose waits are interrupted. Before the interrupt, it calls
// meanwhile.
type interrupted struct {
	context.Context
	meanwhile func()
	waits     int
}

func (i *interrupted) BlockOn(waiter.Waitable, waiter.EventMask) bool {
	i.waits++
	i.meanwhile()
	return false
}

// TestInterruptedOpen checks that the open of a named pipe succeeds if the other end was opened
// before an interrupt, even if it is closed again. Otherwise the open must fail after one wait.
func TestInterruptedOpen(t *testing.T) {
	background := context.Background()
	var files vfs.VirtualFilesystem
	if err := files.Init(background); err != nil {
		t.Fatal(err)
	}
	at := files.NewAnonVirtualDentry("pipe")
	defer at.DecRef(background)
	for name, ends := range map[string][2]uint32{
		"reader": {linux.O_RDONLY, linux.O_WRONLY | linux.O_NONBLOCK},
		"writer": {linux.O_WRONLY, linux.O_RDONLY | linux.O_NONBLOCK},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipe.NewVFSPipe(true, pipe.DefaultPipeSize)
			open := func(ctx context.Context, flags uint32) (*vfs.FileDescription, error) {
				return p.Open(ctx, at.Mount(), at.Dentry(), flags, &vfs.FileLocks{})
			}
			task := &interrupted{background, func() {}, 0}
			if file, err := open(&opening{Context: task}, ends[0]); !linuxerr.Equals(linuxerr.EINTR, err) || task.waits != 1 {
				t.Errorf("got %v, %v after %d waits", file, err, task.waits)
			}
			task.meanwhile = func() {
				other, err := open(background, ends[1])
				if err != nil {
					t.Fatal(err)
				}
				other.DecRef(background)
			}
			file, err := open(&opening{Context: task}, ends[0])
			if err != nil {
				t.Fatal("the other end was opened:", err)
			}
			file.DecRef(background)
		})
	}
}
