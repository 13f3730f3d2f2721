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
// name or a number. Without a group, a named user has its own group from /etc/passwd, and the group
// of a number is the same number.
func ownerOf(tree view.Tree, text string) (owner, error) {
	user, group, hasGroup := strings.Cut(text, ":")
	var o owner
	if user != "" {
		ids, err := lookUp(tree, "etc/passwd", user, 2)
		if err != nil {
			return owner{}, err
		}
		o.uid = ids[0]
		if !hasGroup {
			o.gid = ids[len(ids)-1]
		}
	}
	if group != "" {
		ids, err := lookUp(tree, "etc/group", group, 1)
		if err != nil {
			return owner{}, err
		}
		o.gid = ids[0]
	}
	return o, nil
}

// lookUp returns the numbers of a user or a group: the first n numeric fields of its line. If the
// name is a number, lookUp returns only this number.
func lookUp(tree view.Tree, file, name string, n int) ([]int, error) {
	if ids, err := numbers([]string{name}); err == nil {
		return ids, nil
	}
	at, err := resolve(tree, file, true)
	if err != nil {
		return nil, err
	}
	f, err := tree.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Newf(fault.NotFound, "%q is unknown, because there is no /%s", name, file)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxUserFile))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) > 1+n && fields[0] == name {
			if ids, err := numbers(fields[2 : 2+n]); err == nil {
				return ids, nil
			}
		}
	}
	return nil, fault.Newf(fault.NotFound, "%q is not in /%s", name, file)
}

// numbers parses the numbers of users and groups.
func numbers(texts []string) (all []int, err error) {
	for _, text := range texts {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, err
		}
		all = append(all, int(n))
	}
	return all, nil
}
