package danger

import (
	"path"
	"slices"
	"strings"
)

// system are the top-level folders that a host needs. A relative path, or one that begins with what isn't known, is taken for one of them where it leads there.
var system = []string{"bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "opt", "proc", "root", "run", "sbin", "srv", "sys", "usr", "var", "Users", "System", "Library", "Applications"}

// vital are those of which every part is needed.
var vital = []string{"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys", "System"}

// spread is what recursive work on a path reaches: "" where that is small, else in words.
func (c *checker) spread(p string) string {
	p = strings.ReplaceAll(p, string(anyText)+string(anyText), string(anyText))
	switch head := strings.TrimRight(p, "/.*\x01\x02\x03\x04"); {
	case p == "":
		return ""
	case head == "" && strings.ContainsAny(p, unknowns) && !strings.HasPrefix(p, "./"):
		return "what it reaches is not known"
	case p[0] == '~':
		_, below, _ := strings.Cut(p, "/")
		if strings.Trim(path.Clean("/"+below), "/*\x01\x03\x04") == "" && !strings.Contains(below, string(anyMade)) {
			return "a whole home folder"
		}
		if strings.HasPrefix(path.Clean("/home/user/"+below), "/home/user/") {
			return ""
		}
		return "folders above a home folder"
	case p[0] == '/':
		return absolute(p)
	case p[0] == anyEnv || p[0] == anyMade || p[0] == anyText || p[0] == anyByte:
		rest := strings.TrimLeft(p, unknowns)
		if strings.HasPrefix(rest, "/") && slices.Contains(system, first(rest)) && absolute(rest) != "" {
			return absolute(rest)
		}
	}
	return c.relative(p)
}

// absolute is spread for absolute paths.
func absolute(p string) string {
	clean := path.Clean(p)
	depth := strings.Count(clean, "/")
	top := first(clean)
	switch {
	case clean == "/" || depth == 1:
		return "all of " + p
	case slices.ContainsFunc(vital, func(name string) bool { return matches(top, name) }):
		return "a part of the system, " + p
	case depth == 2 && slices.ContainsFunc(system, func(name string) bool { return matches(top, name) }):
		return "a large part of the system, " + p
	}
	return ""
}

func first(p string) string {
	top, _, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
	return top
}

// relative is spread for relative paths, in all working folders that are known.
func (c *checker) relative(p string) string {
	clean := path.Clean(p)
	if strings.Trim(clean, "./\x03\x04") == "" && !strings.HasPrefix(clean, "...") {
		return "all of the working folder, or above it"
	}
	if up := strings.Count(clean, "../"); up >= 2 && slices.Contains(system, first(clean[3*up:])) {
		return "a folder of the system by way of .."
	}
	for _, folder := range c.folders {
		if strings.HasPrefix(folder, "/") {
			if why := absolute(folder + "/" + p); why != "" {
				return why
			}
		}
	}
	return ""
}

// cd notes a working folder. One that is relative to what isn't known says nothing.
func cd(c *checker, args []string, _ input) []string {
	target := "~"
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") {
			target = a
			break
		}
	}
	targets := []string{target}
	if !strings.HasPrefix(target, "/") {
		targets = nil
		for _, folder := range c.folders {
			if folder != "" {
				targets = append(targets, folder+"/"+target)
			}
		}
	}
	for _, t := range targets {
		c.folders = add(c.folders, path.Clean(t))
	}
	return []string{""}
}

// disk tells whether a path is, or may be, a device that holds a file system, or memory.
func disk(p string) bool {
	p = path.Clean(p)
	name, ok := strings.CutPrefix(p, "/dev/")
	if !ok {
		return false
	}
	for _, kind := range []string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-", "mapper/", "md", "loop", "disk", "rdisk", "mem", "kmem", "port", "block/", "vg", "zd", "nbd", "sr", "ubi", "mtd", "pmem"} {
		if strings.HasPrefix(name, kind) {
			return true
		}
	}
	return strings.ContainsAny(name, wild) && !strings.HasPrefix(name, "fd/") && !strings.HasPrefix(name, "tty") && !strings.HasPrefix(name, "pts/")
}

// kept are files without which nobody can log in, and those that say what runs as root.
var kept = []string{"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/fstab", "/etc/ld.so.preload", "/etc/crontab", "/proc/sysrq-trigger",
	"/etc/ssh/sshd_config", "/etc/pam.conf", "/etc/inittab"}

// written notes a danger in a file that something writes.
func (c *checker) written(target, how string) {
	targets := []string{target}
	if target != "" && !strings.HasPrefix(target, "/") {
		for _, folder := range c.folders {
			if strings.HasPrefix(folder, "/") {
				targets = append(targets, folder+"/"+target)
			}
		}
	}
	for _, t := range targets {
		clean := path.Clean(t)
		switch {
		case disk(t):
			c.harms("writes to a device: %s %s", how, t)
		case strings.HasPrefix(clean, "/etc/sudoers.d/") || slices.ContainsFunc(kept, func(k string) bool { return strings.HasPrefix(clean, "/") && matches(clean, k) }):
			c.harms("overwrites what the system needs: %s %s", how, t)
		case strings.HasPrefix(clean, "/boot/") || strings.HasPrefix(clean, "/bin/") || strings.HasPrefix(clean, "/sbin/") || strings.HasPrefix(clean, "/usr/bin/") || strings.HasPrefix(clean, "/usr/sbin/"):
			c.harms("overwrites a program of the system: %s %s", how, t)
		}
	}
}
