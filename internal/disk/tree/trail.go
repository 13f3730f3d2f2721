package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxOpen is how many folders of a trail are open at a time.
const maxOpen = 32

// trail is the way from the top of a tree down to one of its folders. The top and the lowest few of its folders are open. The others are opened again on
// the way back, through "..", and are only gone on with if they are the same folders: what was moved out of the tree meanwhile leads nowhere.
type trail struct {
	steps []step
}

type step struct {
	fd   int // closed: -1
	name string
	id   identity
}

// identity tells files of the host apart.
type identity struct{ dev, ino uint64 }

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), st.Ino} }

// newTrail begins at an open folder, which the trail closes in the end.
func newTrail(top int) (*trail, *unix.Stat_t, error) {
	st := new(unix.Stat_t)
	if err := unix.Fstat(top, st); err != nil {
		unix.Close(top)
		return nil, nil, err
	}
	return &trail{[]step{{top, "", identityOf(st)}}}, st, nil
}

// depth is how far below the top the trail has got.
func (t *trail) depth() int { return len(t.steps) - 1 }

// fd is the folder that the trail has got to.
func (t *trail) fd() int { return t.steps[len(t.steps)-1].fd }

// down goes on to an open folder, which was found by its name in the one before. It is closed by whoever is given it by up, or by the trail.
func (t *trail) down(fd int, name string, st *unix.Stat_t) {
	t.steps = append(t.steps, step{fd, name, identityOf(st)})
	if far := len(t.steps) - 1 - maxOpen; far > 0 && t.steps[far].fd >= 0 {
		unix.Close(t.steps[far].fd)
		t.steps[far].fd = -1
	}
}

// errMoved says that a tree was changed by somebody else.
var errMoved = errors.New("a folder was moved while it was gone through")

// up goes back to the folder above. The one below is left open, for the caller to close.
func (t *trail) up() (below step, err error) {
	below = t.steps[len(t.steps)-1]
	above := &t.steps[len(t.steps)-2]
	if above.fd < 0 {
		fd, err := openAt(below.fd, "..", folderFlags, 0)
		if err != nil {
			return step{fd: -1}, err
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && identityOf(&st) != above.id {
			err = &fault.Error{Kind: fault.Precondition, Err: errMoved}
		}
		if err != nil {
			unix.Close(fd)
			return step{fd: -1}, err
		}
		above.fd = fd
	}
	t.steps = t.steps[:len(t.steps)-1]
	return below, nil
}

// path is where the trail has got to, and then a name there if one is given; "." is the top.
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

// close closes the folders that are open.
func (t *trail) close() {
	for _, s := range t.steps {
		if s.fd >= 0 {
			unix.Close(s.fd)
		}
	}
	t.steps = nil
}
