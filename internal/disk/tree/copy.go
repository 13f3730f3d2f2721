package tree

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Copy copies the folder src to dst, which must not exist.
// The copy preserves the following:
//   - modes with their set-id bits.
//   - modification times of files, links and folders.
//   - symbolic links, hard links, holes, FIFOs and sockets.
//   - extended attributes and access control lists of files and folders.
//   - owners and devices, if the process is root.
//
// If the process is not root, it owns the copy. Copy then skips devices. It also drops the set-id
// bits of files that another user or group owns. Files share blocks with the originals if the file
// system supports it.
//
// If Copy detects that src changes during the copy, the error has kind Precondition. On any error
// Copy removes dst. Copy does not flush the files to disk. Use Flush for that.
func Copy(ctx context.Context, dst, src string) (Stats, error) {
	return CopySharing(ctx, dst, src, Sharing{})
}

// CopySharing is like Copy, but some files of the copy are hard links. Such a file must never
// change. If the file system can't mark or link files, they are copied.
func CopySharing(ctx context.Context, dst, src string, sharing Sharing) (Stats, error) {
	const op = "copy folder"
	from, err := openTop(src)
	if err != nil {
		return Stats{}, withPath(err, op, src)
	}
	c, err := newCopier(ctx, dst, src, sharing)
	if err != nil {
		unix.Close(from)
		return Stats{}, err
	}
	err = walk(ctx, from, src, c)
	c.close()
	if err = cmp.Or(err, c.err); err != nil {
		return Stats{}, discard(ctx, withPath(err, op, src), dst)
	}
	return c.stats, nil
}

// copyWorkers limits the number of folders that are copied at the same time. Each of them has three
// files open.
const copyWorkers = 4

// copier is the visitor that creates the folders of the copy. Its workers copy all other entries at
// the same time, because most of the work waits for locks of the kernel for single folders.
type copier struct {
	ctx     context.Context
	src     string
	root    bool // The process is allowed to set owners.
	uid     uint32
	gid     uint32
	top     int // the top folder of the copy
	sharing Sharing
	base    base
	jobs    chan *folderCopy
	workers sync.WaitGroup

	noClones atomic.Bool // The file systems can't share blocks.
	noMarks  atomic.Bool // The file system supports no marks or no links.

	// Only the walk uses these fields.
	at     *trail          // the folder that Enter has created last
	folder *copyFolder     // The same folder, as a path that stays valid when at refers to another folder.
	open   []*atomic.Int32 // for each folder of the trail, the number of its unfinished parts
	walker *copyWorker

	// naming is locked while a worker copies a file with several names. A worker that finds another
	// name of the file then makes a link.
	naming sync.Mutex
	links  links

	mu    sync.Mutex // for the fields below
	stats Stats
	err   error // error of the first folder that failed
}

func newCopier(ctx context.Context, dst, src string, sharing Sharing) (*copier, error) {
	const op = "make folder"
	if err := unix.Mkdir(dst, 0o700); err != nil {
		return nil, withPath(err, op, dst)
	}
	top, err := openTop(dst)
	if err != nil {
		return nil, discard(ctx, withPath(err, op, dst), dst)
	}
	at, _, err := newTrail(top)
	if err != nil {
		return nil, discard(ctx, withPath(err, op, dst), dst)
	}
	c := &copier{
		ctx: ctx, src: src, at: at, top: top, folder: &copyFolder{}, links: links{}, sharing: sharing, jobs: make(chan *folderCopy),
		root: os.Geteuid() == 0, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()),
	}
	c.base.open(sharing.Base, src)
	c.walker = newCopyWorker(c)
	for range min(runtime.GOMAXPROCS(0), copyWorkers) {
		c.workers.Go(func() {
			w := newCopyWorker(c)
			for f := range c.jobs {
				f.copyWorker = w
				c.done(f, f.run())
			}
		})
	}
	return c, nil
}

// close waits for the workers, and closes all folders.
func (c *copier) close() {
	close(c.jobs)
	c.workers.Wait()
	c.base.close()
	c.at.close()
}

// done records the result of a folder, and closes its descriptors.
func (c *copier) done(f *folderCopy, err error) {
	f.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = cmp.Or(c.err, err)
	c.stats.add(f.stats)
}

// stopped returns an error if the copy must stop.
func (c *copier) stopped() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.err, c.ctx.Err())
}

// Enter creates the folder, and lets a worker copy its entries except subfolders. Only the owner
// can access the new folder until finish sets its mode.
func (c *copier) Enter(from *Folder, content []Entry) error {
	if err := c.enter(from, content); err != nil {
		return withPath(err, "copy", filepath.Join(c.src, from.Path("")))
	}
	return nil
}

func (c *copier) enter(from *Folder, content []Entry) error {
	if err := c.stopped(); err != nil {
		return err
	}
	if err := c.mkdir(from); err != nil {
		return err
	}
	parts := new(atomic.Int32)
	c.open = append(c.open, parts)
	parts.Add(1) // its subfolders
	content = slices.DeleteFunc(content, func(e Entry) bool { return e.Kind == unix.S_IFDIR })
	if len(content) == 0 {
		return nil
	}
	f, err := c.folderCopy(from, content, parts)
	if err != nil {
		return err
	}
	parts.Add(1) // its other entries
	c.jobs <- f
	return nil
}

func (c *copier) mkdir(from *Folder) error {
	if from.IsTop() {
		return nil
	}
	if identityOf(from.Stat) == c.at.steps[0].id {
		return fault.New(fault.Invalid, "copy folder", shortened(c.src), "the destination is inside the source")
	}
	name := from.Name()
	if err := unix.Mkdirat(c.at.fd(), name, 0o700); err != nil {
		return err
	}
	fd, err := openAt(c.at.fd(), name, folderFlags, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	c.at.down(fd, name, &st)
	c.folder = &copyFolder{c.folder, name}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Folders++
	return nil
}

// Leave finishes the folder, unless a worker still copies its entries. Then the worker does that.
func (c *copier) Leave(from *Folder) error {
	parts := c.open[len(c.open)-1]
	c.open = c.open[:len(c.open)-1]
	if err := c.walker.finish(c.at.fd(), from, parts); err != nil {
		return withPath(err, "copy", filepath.Join(c.src, from.Path("")))
	}
	if from.IsTop() {
		return nil
	}
	done, err := c.at.up()
	if err != nil {
		return withPath(err, "copy", filepath.Join(c.src, from.Path("")))
	}
	c.folder = c.folder.parent
	unix.Close(done.fd)
	return nil
}
