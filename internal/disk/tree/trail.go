package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxOpen limits the number of open folders of a trail, not counting the top.
const maxOpen = 32

// trail is the path from the top of a tree to the current folder. Only the top and the lowest
// maxOpen folders are open. On the way up, the trail reopens a closed folder through "..". It then
// checks the identity of that folder, because another process might have moved the folder below out
// of the tree.
type trail struct {
	steps []step
}

type step struct {
	fd   int // -1 if closed
	name string
	id   identity
}

// identity identifies a file on the host.
type identity struct{ dev, ino uint64 }

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), st.Ino} }

// newTrail returns a trail that begins at the open folder top, and the state of that folder. The
// trail closes the folder.
func newTrail(top int) (*trail, *unix.Stat_t, error) {
	st := new(unix.Stat_t)
	if err := unix.Fstat(top, st); err != nil {
		unix.Close(top)
		return nil, nil, err
	}
	return &trail{[]step{{top, "", identityOf(st)}}}, st, nil
}

// depth returns how many levels the current folder is below the top. It is 0 at the top.
func (t *trail) depth() int { return len(t.steps) - 1 }

// fd returns the descriptor of the current folder.
func (t *trail) fd() int { return t.steps[len(t.steps)-1].fd }

// down enters an open folder, whose name is in the current one. The trail closes the folder itself,
// unless the method up has already returned it.
func (t *trail) down(fd int, name string, st *unix.Stat_t) {
	t.steps = append(t.steps, step{fd, name, identityOf(st)})
	if i := len(t.steps) - 1 - maxOpen; i > 0 && t.steps[i].fd >= 0 {
		unix.Close(t.steps[i].fd)
		t.steps[i].fd = -1
	}
}

// errMoved reports that another process moved a folder of the tree.
var errMoved = errors.New("a folder was moved during the operation")

// up makes the parent folder the current folder. It returns the previous folder, which is still
// open. The caller must close that folder.
func (t *trail) up() (below step, err error) {
	below = t.steps[len(t.steps)-1]
	parent := &t.steps[len(t.steps)-2]
	if parent.fd < 0 {
		fd, err := openAt(below.fd, "..", folderFlags, 0)
		if err != nil {
			return step{fd: -1}, err
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && identityOf(&st) != parent.id {
			err = &fault.Error{Kind: fault.Precondition, Err: errMoved}
		}
		if err != nil {
			unix.Close(fd)
			return step{fd: -1}, err
		}
		parent.fd = fd
	}
	t.steps = t.steps[:len(t.steps)-1]
	return below, nil
}

// path returns the path from the top to the entry name in the current folder. If name is empty, it
// returns the path of the current folder. The path of the top is ".".
func (t *trail) path(name string) string {
	var b []byte
	for _, s := range t.steps[1:] {
		b = append(append(b, s.name...), '/')
	}
	if b = append(b, name...); len(b) == 0 {
		return "."
	} else if name == "" {
		b = b[:len(b)-1]
	}
	return string(b)
}

// close closes all open folders.
func (t *trail) close() {
	for _, s := range t.steps {
		if s.fd >= 0 {
			unix.Close(s.fd)
		}
	}
	t.steps = nil
}
