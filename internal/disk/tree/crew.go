package tree

import (
	"sync"
	"sync/atomic"
)

const (
	crewSize    = 2         // goroutines that write
	crewBuffers = 8         // files that are being written, or wait for it
	crewFile    = 256 << 10 // up to which a file is the crew's
)

// crew writes small files while the next ones are read, since making a file costs more than what is in it.
type crew struct {
	jobs chan job
	free chan []byte // the buffers that no job has; nil: one that was never needed
	done sync.WaitGroup

	mu    sync.Mutex
	first error // that a job ended with

	noClones atomic.Bool // the file system has said that files can't share blocks
}

// job is a file to be written.
type job struct {
	file
	folder  *place
	content []byte
}

// place is a folder, open in each of the writer's, that has several users.
type place struct {
	fds   []int
	users atomic.Int32
}

func newPlace(fds []int) *place {
	p := &place{fds: fds}
	p.users.Store(1)
	return p
}

func (p *place) use() *place {
	p.users.Add(1)
	return p
}

func (p *place) leave() {
	if p.users.Add(-1) == 0 {
		closeAll(p.fds)
	}
}

// each does the same in each of the writer's, up to the first error.
func (p *place) each(do func(fd int) error) error {
	for _, fd := range p.fds {
		if err := do(fd); err != nil {
			return err
		}
	}
	return nil
}

func newCrew() *crew {
	c := &crew{jobs: make(chan job), free: make(chan []byte, crewBuffers)}
	for range crewBuffers {
		c.free <- nil
	}
	for range crewSize {
		c.done.Go(c.work)
	}
	return c
}

func (c *crew) work() {
	for j := range c.jobs {
		fill := func(fd int) error { return writeAll(fd, j.content, 0) }
		err := j.write(j.folder.fds, fill, func(fd, first int) error {
			if len(j.content) > 0 && c.clone(fd, first) {
				return nil
			}
			return fill(fd)
		})
		if err != nil {
			c.mu.Lock()
			if c.first == nil {
				c.first = explained(err, j.name)
			}
			c.mu.Unlock()
		}
		j.folder.leave()
		c.free <- j.content[:crewFile]
	}
}

// clone has a new file share the blocks of another, where the file system can do that.
func (c *crew) clone(dst, src int) bool {
	if c.noClones.Load() {
		return false
	}
	done, never := clone(dst, src)
	if never {
		c.noClones.Store(true)
	}
	return done
}

// buffer gives a buffer when there is one that no job has.
func (c *crew) buffer() []byte {
	buffer := <-c.free
	if buffer == nil {
		buffer = make([]byte, crewFile)
	}
	return buffer
}

// failed tells what has gone wrong so far.
func (c *crew) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// settle waits until all that was given to the crew is written, and tells what has gone wrong.
func (c *crew) settle() error {
	var all [crewBuffers][]byte
	for i := range all {
		all[i] = <-c.free
	}
	for _, buffer := range all {
		c.free <- buffer
	}
	return c.failed()
}

// close ends the crew when it has written what it was given.
func (c *crew) close() {
	close(c.jobs)
	c.done.Wait()
}
