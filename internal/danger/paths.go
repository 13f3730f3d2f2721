package danger

import (
	"os"
	"path"
	"slices"
	"strings"
)

// reach is how much recursive work on a path would touch.
type reach int

// What a path can be, the worst last.
const (
	small   reach = iota // something below a folder of the user's
	unknown              // nobody here knows
	scratch              // a temporary file
	named                // something else that is named from the root
	folder               // all of the working folder
	system               // a part of the system, or a whole home folder
)

func (r reach) String() string {
	return []string{"a part of the working folder", "something that is not known", "an absolute path",
		"an absolute path", "all of the working folder, or above it", "a part of the system, or a home folder"}[r]
}

// tops are the folders of a host of which all parts belong to the system; large are those whose
// parts are large.
var (
	tops  = strings.Fields("bin boot dev etc lib lib32 lib64 proc sbin sys usr System Library")
	large = strings.Fields("home root run var Users Applications")
)

// reach tells what a path leads to.
func (c *checker) reach(p string) reach {
	clean := path.Clean(p)
	rest := strings.TrimLeft(p, hole)
	switch {
	case p == "":
		return small
	case rest != p && strings.Trim(p, hole+"/.*") == "":
		return unknown
	case rest != p:
		if strings.HasPrefix(rest, "/") && isTop(rest[1:]) { // the variable may be empty
			return absolute(rest)
		}
		return small
	case path.IsAbs(p):
		return absolute(clean)
	}
	for up := clean; strings.HasPrefix(up, "../"); {
		if up = strings.TrimPrefix(up, "../"); strings.Count(clean, "../") > 1 && isTop(up) {
			return system
		}
	}
	if c.sh.cwd != "" {
		switch r := absolute(c.resolve(p)); {
		case r == system:
			return system
		case c.sh.cwd == "/" || isHome(c.sh.cwd):
			return max(r, named)
		}
	}
	if strings.Trim(clean, "./*") == "" {
		return folder
	}
	return small
}

// absolute is reach for absolute paths.
func absolute(p string) reach {
	p = path.Clean(strings.ReplaceAll(p, hole, "*"))
	parts := strings.Split(strings.Trim(p, "/"), "/")
	switch {
	case len(parts) == 1, isHome(p), len(parts) == 2 && among(parts[0], large):
		return system
	case among(parts[0], tops) && !(parts[0] == "usr" && (parts[1] == "local" || parts[1] == "src") && len(parts) > 3):
		return system
	case parts[0] == "home" && parts[1] == me && len(parts) > 3 && !secrets(parts[2]):
		return small // ~/project/build
	case isHome("/"+path.Join(parts[:len(parts)-1]...)) && parts[len(parts)-1] == "*":
		return system
	case parts[0] == "tmp", parts[0] == "var" && parts[1] == "tmp", strings.HasPrefix(p, "/dev/shm/"):
		return scratch
	}
	return named
}

// isTop tells whether a relative path would be a part of the system in /.
func isTop(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return first != "" && first != "*" && (among(first, tops) || among(first, large))
}

// among tells whether a name, which may be a pattern, is one of some names.
func among(name string, list []string) bool {
	return slices.ContainsFunc(list, func(other string) bool {
		ok, _ := path.Match(name, other)
		return ok
	})
}

// isHome tells whether a folder is somebody's home folder.
func isHome(p string) bool {
	if p == "/root" {
		return true
	}
	if home, err := os.UserHomeDir(); err == nil && p == path.Clean(home) {
		return true
	}
	dir, _ := path.Split(p)
	return dir == "/home/" || dir == "/Users/"
}

// secrets tells whether a part of a home folder holds keys.
func secrets(name string) bool {
	return isIn(".ssh .gnupg .aws .kube .config .password-store", name)
}

// written reports what is written to that a host or a user needs.
func (c *checker) written(target, how string, appends bool) {
	if target == "" {
		return
	}
	p := c.resolve(target)
	dir, name := path.Split(p)
	parts := strings.Split(strings.Trim(p, "/"), "/")
	switch {
	case disk(p):
		c.harms("writes to a device: %s %s", how, target)
	case !path.IsAbs(p):
	case p == "/proc/sysrq-trigger", dir == "/etc/" && !appends, dir == "/etc/sudoers.d/", dir == "/etc/pam.d/",
		dir == "/etc/ssh/", dir == "/etc/" && among(name, strings.Fields("passwd shadow group gshadow sudoers "+
			"fstab ld.so.preload crontab inittab")):
		c.harms("overwrites what the system needs: %s %s", how, target)
	case among(parts[0], strings.Fields("boot bin sbin lib lib64")),
		len(parts) > 1 && parts[0] == "usr" && among(parts[1], strings.Fields("bin sbin lib lib64")):
		c.harms("overwrites a program of the system: %s %s", how, target)
	case isHome(path.Clean(dir)) && strings.HasPrefix(name, ".") && !appends,
		path.Base(path.Clean(dir)) == ".ssh" && isHome(path.Dir(path.Clean(dir))):
		c.harms("overwrites settings or keys of a user: %s %s", how, target)
	}
}

// disk tells whether a path is, or may be, a device that holds a file system, or memory.
func disk(p string) bool {
	name, ok := strings.CutPrefix(path.Clean(p), "/dev/")
	if !ok {
		return false
	}
	for kind := range strings.FieldsSeq("sd hd vd xvd nvme mmcblk dm- mapper/ md loop disk rdisk mem kmem " +
		"port block/ vg zd nbd sr ubi mtd pmem") {
		if strings.HasPrefix(name, kind) {
			return true
		}
	}
	return strings.ContainsAny(name, hole+"*?[") && !strings.HasPrefix(name, "fd/") &&
		!strings.HasPrefix(name, "tty") && !strings.HasPrefix(name, "pts/") && !strings.HasPrefix(name, "tcp/")
}
