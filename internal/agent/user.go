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

// user is who a process runs as.
type user struct {
	credential syscall.Credential
	home       string
}

// Bounds of the user database, which belongs to the environment.
const (
	maxUserFile = 1 << 20
	maxGroups   = 256
)

var errNoSuchUser = errors.New("no such user")

// findUser resolves "name", "uid", "name:group" or "uid:gid" in the user database below root. Empty is who the agent runs as, which in a machine is root.
func findUser(root int, who string) (user, error) {
	if who == "" && os.Getuid() == 0 {
		return user{home: "/root"}, nil // without a look into the database: nearly every exec
	}
	name, group, hasGroup := strings.Cut(who, ":")
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
		return u, nil // root needs no further groups
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
		return user{}, errors.New("no such group")
	}
	return u, nil
}

func id(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// eachLine calls f with the fields of each line of a file of the user database.
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
	return nil // what is too long to be a line of the database ends it
}
