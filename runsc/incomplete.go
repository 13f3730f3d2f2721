package main

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// incomplete creates a file in the root of the volume before the sentry creates an entry that the
// volume lacks. The sentry does this for a socket and for a named pipe, because gVisor's gofer
// refuses to create them. pyro then lists the volume through the machine.
type incomplete struct {
	mark string // name of the file

	mu     sync.Mutex
	marked bool
}

// serve wraps the handlers that refuse a call. After the refusal, the sentry creates the entry
// itself.
func (i *incomplete) serve(answers []lisafs.RPCHandler) {
	for _, id := range []lisafs.MID{lisafs.MknodAt, lisafs.BindAt} {
		answers[id] = i.marking(answers[id])
	}
}

// marking wraps a handler. If the handler refuses the call, marking creates the file. If it can't
// create the file, the sentry can't create the entry either.
func (i *incomplete) marking(answer lisafs.RPCHandler) lisafs.RPCHandler {
	return func(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
		answered, err := answer(c, comm, asked)
		if errors.Is(err, unix.EPERM) {
			if failed := i.create(); failed != nil {
				err = failed
			}
		}
		return answered, err
	}
}

func (i *incomplete) create() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.marked {
		return nil
	}
	if err := unix.Mknodat(unix.AT_FDCWD, "/"+i.mark, unix.S_IFREG|0o600, 0); err != nil && err != unix.EEXIST {
		return err
	}
	i.marked = true
	return nil
}
