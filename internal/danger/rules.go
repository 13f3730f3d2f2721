package danger

import (
	"path"
	"slices"
	"strings"
)

// rule says of a program's options and operands what harm they do, or "".
type rule func(c *checker, flags, operands []string) string

// always are programs that do harm however they are called.
var always = map[string]string{
	"mkfs": "makes a file system", "mke2fs": "makes a file system", "newfs": "makes a file system",
	"mkswap": "makes a swap area", "blkdiscard": "discards a device", "cfdisk": "changes partitions",
	"lvremove": "removes volumes", "vgremove": "removes volumes", "pvremove": "removes volumes",
	"shutdown": "stops the system", "reboot": "stops the system", "poweroff": "stops the system",
	"halt": "stops the system", "kexec": "stops the system", "killall5": "ends all processes",
	"userdel": "removes a user", "deluser": "removes a user",
}

// subcommands do harm by programs that do else none.
var subcommands = map[string]struct{ why, words string }{
	"init": {"stops the system", "0 1 6 s S"}, "telinit": {"stops the system", "0 1 6 s S"},
	"systemctl": {"stops the system", "poweroff reboot halt kexec rescue emergency soft-reboot suspend hibernate"},
	"loginctl":  {"stops the system", "poweroff reboot halt"}, "zpool": {"destroys a pool", "destroy labelclear"},
	"cryptsetup": {"changes an encrypted device", "luksFormat luksErase erase luksKillSlot"},
	"nvme":       {"erases a disk", "format sanitize"},
	"hdparm":     {"erases a disk", "--security-erase --trim-sector-ranges --security-erase-enhanced"},
	"parted":     {"changes partitions", "mklabel mktable mkpart rm resizepart"},
}

// verbs are looked for among the arguments of programs that are not known.
var verbs = strings.Fields("rm dd shred mkfs chmod chown wipefs")

var ruleOf map[string]rule

func init() { // they follow commands
	ruleOf = map[string]rule{
		"rm": removes, "rimraf": trees, "unlink": removes, "chmod": changes, "chown": changes, "chgrp": changes, "setfacl": changes,
		"chattr": changes, "shred": destroys, "truncate": destroys, "mv": moves, "cp": overwrites,
		"install": overwrites, "ln": overwrites, "kill": kills, "pkill": killsMany, "killall": killsMany,
		"fdisk": partitions, "sfdisk": partitions, "sgdisk": partitions, "gdisk": partitions,
		"wipefs":  hasFlag("wipes signatures of file systems", "a", "o", "--all", "--offset"),
		"crontab": hasFlag("removes all jobs of cron", "r"), "rsync": syncs, "sed": edits,
	}
}

// harmOf is the harm that a command does by the rules.
func harmOf(c *checker, name string, args []string) string {
	if why := always[name]; why != "" {
		return why
	}
	for word := range strings.FieldsSeq(subcommands[name].words) {
		if slices.Contains(args[1:], word) {
			return subcommands[name].why
		}
	}
	if name == "dd" {
		return copies(c, args[1:])
	}
	if look := ruleOf[name]; look != nil {
		valued := map[string]string{"truncate": "srI", "shred": "ns", "install": "mogtS", "crontab": "u"}[name]
		flags, operands := options(args[1:], valued)
		return look(c, flags, operands)
	}
	return ""
}

// options gives the letters of short options, long options, and what is no option, in any order.
func options(args []string, valued string) (flags, operands []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return flags, append(operands, args[i+1:]...)
		case strings.HasPrefix(a, "--"):
			flags = append(flags, a)
			for name, letter := range map[string]string{"--recursive": "r", "--force": "f"} { // may be shortened
				if len(a) > 3 && strings.HasPrefix(name, a) {
					flags = append(flags, letter)
				}
			}
		case len(a) > 1 && a[0] == '-':
			for n, letter := range a[1:] {
				flags = append(flags, string(letter))
				if strings.ContainsRune(valued, letter) {
					if n+2 == len(a) {
						i++
					}
					break
				}
			}
		default:
			operands = append(operands, a)
		}
	}
	return flags, operands
}

func recursive(flags []string) bool {
	return slices.Contains(flags, "r") || slices.Contains(flags, "R")
}

func removes(c *checker, flags, operands []string) string {
	// A flag or an operand that is not known may be -rf.
	loose := slices.Contains(flags, hole) || slices.Contains(operands, hole)
	for _, target := range operands {
		switch r := c.reach(target); {
		case disk(c.resolve(target)):
			return "removes a device"
		case recursive(flags) && r == unknown && target != hole+hole:
			return "removes recursively " + r.String()
		case recursive(flags) && r > small:
			return "removes recursively " + r.String()
		case r == system && (loose || path.IsAbs(c.resolve(target))):
			return "removes " + r.String()
		}
	}
	return ""
}

func trees(c *checker, flags, operands []string) string {
	return removes(c, append(flags, "r"), operands)
}

func changes(c *checker, flags, operands []string) string {
	if recursive(flags) {
		for _, target := range operands {
			if r := c.reach(target); r == system {
				return "changes permissions or owners of " + r.String()
			}
		}
	}
	return ""
}

func destroys(c *checker, _, operands []string) string {
	for _, target := range operands {
		p := c.resolve(target)
		scratch := strings.HasPrefix(p, "/tmp/") || strings.HasPrefix(p, "/var/tmp/") || strings.HasPrefix(p, "/dev/shm/")
		if r := c.reach(target); disk(p) || !scratch && (r == named || r == system) {
			return "destroys a file by " + r.String()
		}
		c.written(target, "overwriting", false)
	}
	return ""
}

func syncs(c *checker, flags, operands []string) string {
	deletes := slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--del") })
	if n := len(operands); deletes && n > 0 && c.reach(operands[n-1]) == system {
		return "removes what is not in another folder"
	}
	return ""
}

func edits(c *checker, flags, operands []string) string {
	if slices.Contains(flags, "i") {
		return overwrites(c, flags, operands)
	}
	for _, script := range operands {
		if _, command, ok := strings.Cut(script, "e "); ok && strings.Trim(script[:len(script)-len(command)-2], "0123456789$") == "" {
			c.quietly(func() { c.script(command, nil) })
		}
	}
	return ""
}

func overwrites(c *checker, _, operands []string) string {
	if n := len(operands); n > 0 {
		c.written(operands[n-1], "overwriting", false)
	}
	return ""
}

func moves(c *checker, flags, operands []string) string {
	if len(operands) < 2 {
		return ""
	}
	last := len(operands) - 1
	if operands[last] == "/dev/null" {
		return "moves files into nothing"
	}
	for _, source := range operands[:last] {
		if r := c.reach(source); r == system {
			return "moves " + r.String()
		}
	}
	return overwrites(c, flags, operands)
}

func copies(c *checker, args []string) string {
	for _, a := range args {
		if to, ok := strings.CutPrefix(a, "of="); ok {
			if c.reach(to) == unknown {
				return "writes to something that is not known"
			}
			c.written(to, "dd", false)
		}
		if a == "if=/dev/zero" {
			return "reads /dev/zero"
		}
	}
	return ""
}

func partitions(_ *checker, flags, operands []string) string {
	for _, flag := range []string{"l", "p", "d", "v", "--list", "--print", "--dump"} {
		if slices.Contains(flags, flag) && len(flags) == 1 {
			return ""
		}
	}
	if len(operands) == 0 {
		return ""
	}
	return "changes partitions"
}

func kills(_ *checker, flags, operands []string) string {
	if slices.Contains(operands, "1") || slices.Contains(operands, "-1") ||
		len(flags) > 0 && flags[len(flags)-1] == "1" && len(operands) == 0 {
		return "ends all processes, or the first"
	}
	return ""
}

func killsMany(_ *checker, _, operands []string) string {
	for _, a := range operands {
		if strings.Trim(a, "^.*$") == "" || slices.Contains([]string{"init", "systemd", "sshd"}, a) {
			return "ends many processes, or those that the system needs"
		}
	}
	return ""
}

func hasFlag(why string, wanted ...string) rule {
	return func(_ *checker, flags, _ []string) string {
		for _, w := range wanted {
			if slices.Contains(flags, w) {
				return why
			}
		}
		return ""
	}
}
