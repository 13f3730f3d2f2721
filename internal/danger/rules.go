package danger

import (
	"slices"
	"strings"
)

// rule says of a program's arguments what harm they do, or "". Rules hold beside the default patterns, not beside a user's.
type rule struct {
	what func(c *checker, args []string) string
	any  func(c *checker, args []string) string // the same where the program is not known, which must be surer
}

func (r rule) look(c *checker, args []string, _ input) []string {
	if why := r.what(c, args); why != "" {
		c.harms("%s: %s", why, strings.Join(args, " "))
	}
	return unknown
}

// always is a rule for what does harm however it is called, but for asking what it can do.
func always(why string) rule {
	return rule{what: func(_ *checker, args []string) string {
		if len(args) > 1 && slices.Contains([]string{"--help", "-h", "--version", "-V"}, args[1]) {
			return ""
		}
		return why
	}}
}

var harmful = map[string]rule{
	"rm": {removes, func(c *checker, args []string) string {
		if short, _ := options(args); !strings.ContainsAny(short, "rR") || !strings.Contains(short, "f") {
			return ""
		}
		return removes(c, args)
	}},
	"unlink": {what: removes}, "shred": {what: func(c *checker, args []string) string { return overwrites(c, args, operands(args)) }},
	"chmod": {what: changes}, "chown": {what: changes}, "chgrp": {what: changes}, "setfacl": {what: changes}, "chattr": {what: changes},
	"dd": {copies, copies}, "mv": {what: moves}, "cp": {what: copiesOver}, "install": {what: copiesOver}, "ln": {what: copiesOver}, "rsync": {what: syncs},
	"mkfs": always("makes a file system"), "mke2fs": always("makes a file system"), "mkswap": always("makes a swap area"), "newfs": always("makes a file system"),
	"wipefs": {what: func(_ *checker, args []string) string {
		if short, long := options(args); strings.ContainsAny(short, "ao") || slices.Contains(long, "--all") || slices.Contains(long, "--offset") {
			return "wipes signatures of file systems"
		}
		return ""
	}},
	"fdisk": {what: partitions}, "sfdisk": {what: partitions}, "cfdisk": {what: partitions}, "sgdisk": {what: partitions}, "gdisk": {what: partitions}, "parted": {what: partitions},
	"blkdiscard": always("discards a device"), "cryptsetup": {what: first1("changes an encrypted device", "luksFormat", "luksErase", "erase", "luksKillSlot")},
	"lvremove": always("removes volumes"), "vgremove": always("removes volumes"), "pvremove": always("removes volumes"), "zpool": {what: first1("destroys a pool", "destroy", "labelclear")},
	"hdparm": {what: hasArg("erases a disk", "--security-erase", "--trim-sector-ranges", "--security-erase-enhanced")}, "nvme": {what: first1("erases a disk", "format", "sanitize")},
	"shutdown": always("stops the system"), "reboot": always("stops the system"), "poweroff": always("stops the system"), "halt": always("stops the system"), "kexec": always("stops the system"),
	"init": {what: first1("stops the system", "0", "6", "1", "s", "S")}, "telinit": {what: first1("stops the system", "0", "6", "1", "s", "S")},
	"systemctl": {what: hasArg("stops the system", "poweroff", "reboot", "halt", "kexec", "rescue", "emergency", "soft-reboot", "suspend", "hibernate")}, "loginctl": {what: hasArg("stops the system", "poweroff", "reboot", "halt")},
	"kill": {what: kills}, "killall5": always("ends all processes"), "pkill": {what: killsMany}, "killall": {what: killsMany},
	"crontab": {what: func(_ *checker, args []string) string {
		if short, _ := options(args); strings.Contains(short, "r") {
			return "removes all jobs of cron"
		}
		return ""
	}},
	"userdel": always("removes a user"), "deluser": always("removes a user"), "truncate": {what: func(c *checker, args []string) string { return overwrites(c, args, operands(args)) }},
}

// options gives the letters of all short options, and the long ones.
func options(args []string) (short string, long []string) {
	for _, a := range args[1:] {
		a = known(a)
		switch {
		case a == "--":
			return short, long
		case strings.HasPrefix(a, "--"):
			long = append(long, a)
			for name, letter := range map[string]string{"--recursive": "r", "--force": "f"} { // may be shortened
				if len(a) > 3 && strings.HasPrefix(name, a) {
					short += letter
				}
			}
		case strings.HasPrefix(a, "-"):
			short += a[1:]
		}
	}
	return short, long
}

// operands gives what is no option.
func operands(args []string) (list []string) {
	for i, a := range args[1:] {
		switch {
		case a == "--":
			return append(list, args[i+2:]...)
		case !strings.HasPrefix(a, "-"):
			list = append(list, a)
		}
	}
	return list
}

func removes(c *checker, args []string) string {
	short, _ := options(args)
	recursive := strings.ContainsAny(short, "rR")
	loose := slices.ContainsFunc(args[1:], opaque) // may be -rf
	for _, target := range operands(args) {
		wide := c.spread(target)
		switch {
		case disk(target):
			return "removes a device"
		case recursive && strings.HasPrefix(target, "/"):
			return "removes recursively by an absolute path"
		case recursive && wide != "":
			return "removes recursively; " + wide
		case strings.HasPrefix(target, "/") && (wide != "" && (loose || strings.ContainsAny(target, wild)) || strings.HasPrefix(wide, "a part of the system")):
			return "removes " + wide
		}
	}
	return ""
}

func changes(c *checker, args []string) string {
	if short, _ := options(args); !strings.Contains(short, "R") && !strings.Contains(short, "r") {
		return ""
	}
	for _, target := range operands(args) {
		if wide := c.spread(target); wide != "" && (target[0] == '/' || target[0] == '~' || strings.Contains(wide, "system") || strings.HasPrefix(wide, "all of /")) {
			return "changes permissions or owners recursively; " + wide
		}
	}
	return ""
}

func copies(c *checker, args []string) string {
	from, to := "", ""
	for _, a := range args[1:] {
		if v, ok := strings.CutPrefix(a, "of="); ok {
			to = v
		}
		if v, ok := strings.CutPrefix(a, "if="); ok {
			from = v
		}
	}
	switch {
	case to != "" && (disk(to) || opaque(to)):
		return "writes to a device"
	case matches(from, "/dev/zero") && from != "" && !opaque(from):
		return "reads /dev/zero"
	}
	return overwrites(c, args, []string{to})
}

// overwrites notes what is written to. What it finds is told already.
func overwrites(c *checker, args, targets []string) string {
	for _, t := range targets {
		c.written(t, args[0])
	}
	return ""
}

func copiesOver(c *checker, args []string) string {
	if list := operands(args); len(list) > 0 {
		overwrites(c, args, list[len(list)-1:])
	}
	return ""
}

func moves(c *checker, args []string) string {
	list := operands(args)
	if len(list) < 2 {
		return ""
	}
	target := list[len(list)-1]
	if target == "/dev/null" {
		return "moves files into nothing"
	}
	for _, source := range list[:len(list)-1] {
		if wide := c.spread(source); strings.HasPrefix(source, "/") && wide != "" || strings.HasPrefix(wide, "a whole home") {
			return "moves " + wide
		}
	}
	return copiesOver(c, args)
}

func syncs(c *checker, args []string) string {
	list := operands(args)
	if _, long := options(args); len(list) > 0 && slices.ContainsFunc(long, func(o string) bool { return strings.HasPrefix(o, "--del") }) {
		if wide := c.spread(list[len(list)-1]); wide != "" && strings.HasPrefix(list[len(list)-1], "/") {
			return "removes what is not in another folder; " + wide
		}
	}
	return ""
}

func partitions(_ *checker, args []string) string {
	short, long := options(args)
	switch {
	case len(operands(args)) == 0 && args[0] != "cfdisk":
		return ""
	case strings.ContainsAny(short, "lps") && args[0] != "sgdisk" && args[0] != "parted", slices.Contains(long, "--list"), slices.Contains(long, "--print"), strings.Trim(short, "lp") == "" && short != "" && args[0] == "sgdisk":
		return ""
	case args[0] == "parted" && slices.Contains(args, "print") && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "mk") || a == "rm" || strings.HasPrefix(a, "resize") }):
		return ""
	case args[0] == "sfdisk" && strings.Contains(short, "d"):
		return ""
	}
	return "changes partitions"
}

func kills(_ *checker, args []string) string {
	rest := args[1:]
	for i, a := range rest {
		if a == "-1" && (i > 0 || len(rest) == 1) || a == "1" && i == len(rest)-1 && (i == 0 || strings.HasPrefix(rest[i-1], "-") || len(rest) < 4) {
			return "ends all processes, or the first"
		}
		if i > 0 && a == "1" {
			return "ends the first process"
		}
	}
	return ""
}

func killsMany(_ *checker, args []string) string {
	for _, a := range operands(args) {
		if a == "." || a == ".*" || a == "" || a == "init" || a == "systemd" || a == "sshd" || a == "^" || strings.Trim(a, wild+".") == "" && a != "" && !strings.Contains(a, string(anyEnv)) {
			return "ends many processes, or those that the system needs"
		}
	}
	return ""
}

// first1 is a rule for programs whose first operand says what they do.
func first1(why string, words ...string) func(*checker, []string) string {
	return func(_ *checker, args []string) string {
		if list := operands(args); len(list) > 0 && slices.Contains(words, list[0]) {
			return why
		}
		return ""
	}
}

// hasArg is a rule for programs one of whose arguments says what they do.
func hasArg(why string, words ...string) func(*checker, []string) string {
	return func(_ *checker, args []string) string {
		for _, a := range args[1:] {
			if slices.Contains(words, a) {
				return why
			}
		}
		return ""
	}
}
