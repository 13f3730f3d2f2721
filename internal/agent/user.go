package agent

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
)

// user is the user of a process.
type user struct {
	credential syscall.Credential
	home       string
}

// Limits of the user database. They are needed because the environment provides the database.
// maxUserFile is in bytes.
const (
	maxUserFile = 1 << 20
	maxGroups   = 256
)

var (
	errNoSuchUser  = errors.New("no such user")
	errNoSuchGroup = errors.New("no such group")
)

// findUser looks up "name", "uid", "name:group" or "uid:gid" in the user database below root. An
// empty spec means the user of the agent, who is root in a machine.
func findUser(root int, spec string) (user, error) {
	if spec == "" && os.Getuid() == 0 {
		return user{home: "/root"}, nil // the common case, which does not need the database
	}
	name, group, hasGroup := strings.Cut(spec, ":")
	if name == "" {
		name = strconv.Itoa(os.Getuid())
	}
	u := user{home: "/"}
	known := false
	err := eachLine(root, "/etc/passwd", func(f []string) {
		if known || len(f) < 6 || f[0] != name && f[2] != name {
			return
		}
		uid, err1 := id(f[2])
		gid, err2 := id(f[3])
		if err1 == nil && err2 == nil {
			u.credential.Uid, u.credential.Gid, known = uid, gid, true
			name = f[0]
			if strings.HasPrefix(f[5], "/") {
				u.home = f[5]
			}
		}
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return user{}, err
	}
	if !known {
		uid, err := id(name)
		if err != nil {
			return user{}, errNoSuchUser
		}
		u.credential.Uid, u.credential.Gid = uid, 0
		if uid == 0 {
			u.home = "/root"
		}
	}
	if u.credential.Uid == 0 && !hasGroup {
		return u, nil // root needs no supplementary groups
	}
	foundGroup := !hasGroup
	if gid, err := id(group); hasGroup && err == nil {
		u.credential.Gid, foundGroup = gid, true
	}
	err = eachLine(root, "/etc/group", func(f []string) {
		if len(f) < 4 {
			return
		}
		gid, err := id(f[2])
		if err != nil {
			return
		}
		if hasGroup && f[0] == group {
			u.credential.Gid, foundGroup = gid, true
		}
		for member := range strings.SplitSeq(f[3], ",") {
			if member == name && len(u.credential.Groups) < maxGroups {
				u.credential.Groups = append(u.credential.Groups, gid)
			}
		}
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return user{}, err
	}
	if !foundGroup {
		return user{}, errNoSuchGroup
	}
	return u, nil
}

func id(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// eachLine calls f with the fields of each line of a file in the user database. It stops at a line
// that is too long.
func eachLine(root int, path string, f func(fields []string)) error {
	file, err := volume.OpenRegular(root, path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxUserFile))
	for lines.Scan() {
		f(strings.Split(lines.Text(), ":"))
	}
	return nil
}
