package danger

import (
	"os"
	"path"
	"slices"
	"strings"
)

// reach describes how much data recursive work on a path can affect.
type reach int

// The values of reach, in ascending order.
const (
	project     reach = iota // a part of a project directory.
	unclearPath              // the text does not show the path.
	temporary                // a temporary file.
	outside                  // any other absolute path.
	workdir                  // the whole working directory.
	system                   // a part of the system, or a whole home directory.
	overwrites               // not a reach: the method write decides whether the file matters.
)

func (r reach) String() string {
	return [...]string{"a relative path", "an unknown path", "an absolute path", "an absolute path",
		"all of the working folder, or above it", "a part of the system, or a home folder"}[r]
}

// In systemDirs all files belong to the system. In dataDirs each entry contains a lot of data.
var (
	systemDirs  = strings.Fields("bin boot dev etc lib lib32 lib64 proc sbin sys usr System Library")
	dataDirs    = strings.Fields("home root run var Users Applications")
	programDirs = strings.Fields("boot bin sbin lib lib64")
	systemFiles = strings.Fields("passwd shadow group gshadow sudoers fstab ld.so.preload crontab " +
		"inittab")
	disks = strings.Fields("sd hd vd xvd nvme mmcblk dm- mapper/ md loop disk rdisk mem kmem port " +
		"block/ vg zd nbd sr ubi mtd pmem")
)

// reach returns the reach of a path, which can be relative to the working directory.
func (c *checker) reach(p string) reach {
	clean := path.Clean(p)
	rest := strings.TrimLeft(p, unknown)
	switch {
	case p == "":
		return project
	case rest != p && strings.Trim(p, unknown+"/.*") == "":
		return unclearPath
	case rest != p && strings.HasPrefix(rest, "/") && inRoot(rest[1:]): // the variable before the slash could be empty
		return absolute(rest)
	case rest != p:
		return project
	case path.IsAbs(p):
		return absolute(clean)
	}
	here := absolute(c.resolve(p))
	switch {
	case c.sh.cwd != "" && here == system,
		strings.HasPrefix(clean, "../../") && inRoot(strings.TrimLeft(clean, "./")):
		return system
	case c.sh.cwd == "/" || isHome(c.sh.cwd):
		return here
	case strings.Trim(clean, "./*") == "":
		return workdir
	}
	return project
}

// absolute returns the reach of an absolute path.
func absolute(p string) reach {
	p = path.Clean(strings.ReplaceAll(p, unknown, "*"))
	parts := strings.Split(strings.Trim(p, "/"), "/")
	parent, last := path.Dir(p), path.Base(p)
	switch {
	case len(parts) == 1, isHome(p), len(parts) == 2 && matchesAny(parts[0], dataDirs),
		matchesAny(parts[0], systemDirs), isHome(parent) && last == "*":
		return system
	case parts[0] == "home" && parts[1] == user && len(parts) > 3 && (parts[2][0] != '.' || parts[2] == ".cache"):
		return project
	case parts[0] == "tmp", strings.HasPrefix(p, "/var/tmp/"), strings.HasPrefix(p, "/dev/shm/"):
		return temporary
	}
	return outside
}

// inRoot reports whether a relative path belongs to the system if the working directory is /.
func inRoot(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return strings.Trim(first, "*") != "" &&
		(matchesAny(first, systemDirs) || matchesAny(first, dataDirs))
}

// matchesAny reports whether a name matches one of several names. The name can be a glob pattern.
func matchesAny(glob string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	})
}

// isHome reports whether a directory is a home directory.
func isHome(p string) bool {
	home, err := os.UserHomeDir()
	return p == "/root" || err == nil && p == path.Clean(home) ||
		isIn("/home /Users", path.Dir(p))
}

// write checks a write to a file. It reports writes to files that the system or a user needs. The
// parameter how names the program.
func (c *checker) write(target, how string, appends bool) {
	p := c.resolve(target)
	dir, name := path.Split(p)
	parent := path.Clean(dir)
	parts := strings.Split(strings.Trim(p, "/"), "/")
	switch {
	case target == "":
	case isDisk(p):
		c.harm("writes to a device: %s %s", how, target)
	case !path.IsAbs(p):
	case p == "/proc/sysrq-trigger", parent == "/etc" && (!appends || matchesAny(name, systemFiles)),
		isIn("/etc/sudoers.d /etc/pam.d /etc/ssh", parent):
		c.harm("overwrites a file that the system needs: %s %s", how, target)
	case matchesAny(parts[0], programDirs),
		len(parts) > 1 && parts[0] == "usr" && matchesAny(parts[1], programDirs):
		c.harm("overwrites a program of the system: %s %s", how, target)
	case isHome(parent) && strings.HasPrefix(name, ".") && !appends,
		path.Base(parent) == ".ssh" && isHome(path.Dir(parent)):
		c.harm("overwrites settings or keys of a user: %s %s", how, target)
	}
}

// isDisk reports whether a path can be a device that contains a file system or memory.
func isDisk(p string) bool {
	name, ok := strings.CutPrefix(p, "/dev/")
	isDisk := slices.ContainsFunc(disks, func(d string) bool { return strings.HasPrefix(name, d) })
	dir, _, _ := strings.Cut(name, "/")
	other := strings.HasPrefix(name, "tty") || isIn("fd pts tcp", dir)
	return ok && (isDisk || strings.ContainsAny(name, unknown+"*?[") && !other)
}
