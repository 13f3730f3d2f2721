package tree

import (
	"sync"
	"sync/atomic"
)

const (
	poolWorkers = 2         // Number of goroutines that write.
	poolBuffers = 8         // Maximum number of files that are being written or are waiting.
	poolMaxFile = 256 << 10 // Maximum size of a file that the pool writes, in bytes.
)

// writePool writes small files while the caller reads the next ones, because creating a small file
// takes longer than reading its content.
type writePool struct {
	jobs chan job
	free chan []byte // unused buffers, or nil for each buffer that is not allocated yet
	done sync.WaitGroup

	mu  sync.Mutex
	err error // error of the first job that failed

	noClones atomic.Bool // The file system cannot share blocks between files.
}

// job is a small file with its content. It owns one reference to folder.
type job struct {
	file
	folder  *openFolders
	content []byte
}

// openFolders contains open descriptors of one folder: one in each destination of the writer. The
// last call of release closes them.
type openFolders struct {
	fds  []int
	refs atomic.Int32
}

func newOpenFolders(fds []int) *openFolders {
	f := &openFolders{fds: fds}
	f.refs.Store(1)
	return f
}

func (f *openFolders) retain() *openFolders {
	f.refs.Add(1)
	return f
}

func (f *openFolders) release() {
	if f.refs.Add(-1) == 0 {
		closeAll(f.fds)
	}
}

// each calls the function do for each destination, and stops at the first error.
func (f *openFolders) each(do func(fd int) error) error {
	for _, fd := range f.fds {
		if err := do(fd); err != nil {
			return err
		}
	}
	return nil
}

func newWritePool() *writePool {
	p := &writePool{jobs: make(chan job), free: make(chan []byte, poolBuffers)}
	for range poolBuffers {
		p.free <- nil
	}
	for range poolWorkers {
		p.done.Go(p.work)
	}
	return p
}

func (p *writePool) work() {
	for j := range p.jobs {
		fill := func(fd int) error { return writeAll(fd, j.content, 0) }
		err := j.write(j.folder.fds, fill, func(fd, first int) error {
			if len(j.content) > 0 && p.clone(fd, first) {
				return nil
			}
			return fill(fd)
		})
		if err != nil {
			p.mu.Lock()
			if p.err == nil {
				p.err = entryError(err, j.name)
			}
			p.mu.Unlock()
		}
		j.folder.release()
		p.free <- j.content[:poolMaxFile]
	}
}

// clone makes the new file dst share the blocks of src, if the file system supports it.
func (p *writePool) clone(dst, src int) bool {
	if p.noClones.Load() {
		return false
	}
	done, unsupported := clone(dst, src)
	if unsupported {
		p.noClones.Store(true)
	}
	return done
}

// buffer waits for an unused buffer.
func (p *writePool) buffer() []byte {
	buffer := <-p.free
	if buffer == nil {
		buffer = make([]byte, poolMaxFile)
	}
	return buffer
}

// failed returns the error of the first job that has failed so far.
func (p *writePool) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// wait waits until all jobs are done. It returns the error of the first job that failed.
func (p *writePool) wait() error {
	var all [poolBuffers][]byte
	for i := range all {
		all[i] = <-p.free
	}
	for _, buffer := range all {
		p.free <- buffer
	}
	return p.failed()
}

// close waits until all jobs are done, and stops the workers.
func (p *writePool) close() {
	close(p.jobs)
	p.done.Wait()
}
