package build

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// owner is the owner of copied files.
type owner struct{ uid, gid int }

// maxUserFile is how much of a user database is read, in bytes.
const maxUserFile = 1 << 20

// ownerOf looks up "user", "user:group" or ":group" in the user database of a tree. Each part is a
// name or a number. Without a group, the group has the user's number, as in Docker.
func ownerOf(tree view.Tree, text string) (owner, error) {
	user, group, hasGroup := strings.Cut(text, ":")
	var o owner
	var err error
	if user != "" {
		if o.uid, err = lookUp(tree, "etc/passwd", user); err != nil {
			return owner{}, err
		}
	}
	switch {
	case !hasGroup:
		o.gid = o.uid
		if _, number := strconv.Atoi(user); number != nil { // the default group of a named user
			if o.gid, err = lookUp(tree, "etc/group", user); err != nil {
				o.gid, err = o.uid, nil
			}
		}
	case group != "":
		o.gid, err = lookUp(tree, "etc/group", group)
	}
	return o, err
}

// lookUp returns the number of a user or a group.
func lookUp(tree view.Tree, file, name string) (int, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return int(n), nil
	}
	at, err := resolve(tree, file, true)
	if err != nil {
		return 0, err
	}
	f, err := tree.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fault.Newf(fault.NotFound, "%q is unknown, because there is no /%s", name, file)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxUserFile))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) > 2 && fields[0] == name {
			if n, err := strconv.ParseUint(fields[2], 10, 32); err == nil {
				return int(n), nil
			}
		}
	}
	return 0, fault.Newf(fault.NotFound, "%q is not in /%s", name, file)
}
