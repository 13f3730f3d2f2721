package danger

import (
	"slices"
	"strings"
)

// harmful are programs that do harm: always, or if one of some words is among their arguments.
var harmful = []struct {
	names string
	words string // "-a" is also found in "-ab"; "": always
	but   string // harmless if one of these is the only option
	why   string
}{
	{names: "mkfs mke2fs newfs mkswap", why: "makes a file system"},
	{names: "blkdiscard", why: "discards a device"},
	{names: "lvremove vgremove pvremove", why: "removes volumes"},
	{names: "shutdown reboot poweroff halt kexec", but: "-c", why: "stops the system"},
	{names: "init telinit", words: "0 1 6 s S", why: "stops the system"},
	{names: "systemctl loginctl", words: "poweroff reboot halt kexec rescue emergency soft-reboot suspend hibernate",
		why: "stops the system"},
	{names: "killall5", why: "ends all processes"},
	{names: "pkill killall", words: ". .* ^ ^. ^.* ^.*$ init systemd sshd",
		why: "ends many processes, or those that the system needs"},
	{names: "userdel deluser", why: "removes a user"},
	{names: "crontab", words: "-r", why: "removes all jobs of cron"},
	{names: "iptables ip6tables nft ufw", words: "-F -X --flush flush reset disable", why: "opens the firewall"},
	{names: "cfdisk fdisk sfdisk sgdisk gdisk", but: "-l -p -d -v --list --print --dump", why: "changes partitions"},
	{names: "parted", words: "mklabel mktable mkpart rm resizepart", why: "changes partitions"},
	{names: "wipefs", words: "-a -o --all --offset", why: "wipes signatures of file systems"},
	{names: "zpool", words: "destroy labelclear", why: "destroys a pool"},
	{names: "cryptsetup", words: "luksFormat luksErase erase luksKillSlot", why: "changes an encrypted device"},
	{names: "nvme hdparm", words: "format sanitize --security-erase --security-erase-enhanced --trim-sector-ranges",
		why: "erases a disk"},
	{names: "dd", words: "if=/dev/zero", why: "reads /dev/zero"},
	{names: "mv", words: "/dev/null", why: "moves files into nothing"},
}

// effects say which programs remove, change or write which of their operands.
var effects = []struct {
	names  string
	flags  string // one of these options is needed; "": none is
	valued string // short options that take a value
	last   bool   // only the last operand counts
	others bool   // all but the last count
	beyond reach  // what reaches further is harm
	writes bool   // harm depends on the file instead
	why    string
}{
	{names: "rm", flags: "r R --recursive", beyond: small, why: "removes recursively"},
	{names: "rimraf", beyond: small, why: "removes recursively"},
	{names: "rm unlink", beyond: named, why: "removes"},
	{names: "chmod chown chgrp setfacl chattr", flags: "r R --recursive", beyond: folder,
		why: "changes permissions or owners of"},
	{names: "shred truncate", valued: "srIn", beyond: scratch, why: "destroys"},
	{names: "mv", others: true, beyond: folder, why: "moves"},
	{names: "rsync", flags: "--del", last: true, beyond: folder, why: "removes files without a source in"},
	{names: "mv cp install ln", valued: "mogtS", last: true, writes: true, why: "overwriting"},
	{names: "sed", flags: "i --in-place", last: true, writes: true, why: "overwriting"},
	{names: "shred truncate ed", valued: "srInp", writes: true, why: "overwriting"},
}

// verbs are looked for among the arguments of programs that are not known.
var verbs = strings.Fields("rm dd shred mkfs chmod chown wipefs")

// isIn tells whether a word is in a list with blanks between its words.
func isIn(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// harm reports the harm that a command does by the rules.
func (c *checker) harm(name string, args []string) {
	command := strings.Join(args, " ")
	for _, h := range harmful {
		if isIn(h.names, name) && (h.words == "" || anyOf(h.words, args[1:])) && !harmless(h.but, args[1:]) {
			c.harms("%s: %s", h.why, command)
		}
	}
	for _, e := range effects {
		if !isIn(e.names, name) {
			continue
		}
		flags, operands := parse(args[1:], e.valued, false)
		if e.flags != "" && !flags.has(e.flags) {
			continue
		}
		if last := max(0, len(operands)-1); e.last {
			operands = operands[last:]
		} else if e.others {
			operands = operands[:last]
		}
		for _, o := range operands {
			if r := c.reach(o); e.writes {
				c.written(o, e.why, false)
			} else if r > e.beyond {
				c.harms("%s %s: %s", e.why, r, command)
			}
		}
	}
	switch {
	case name == "kill" && (slices.Contains(args[1:], "1") || slices.Contains(args[min(2, len(args)):], "-1")):
		c.harms("ends all processes, or the first: %s", command)
	case name == "dd":
		for _, a := range args[1:] {
			if to, ok := strings.CutPrefix(a, "of="); ok && c.reach(to) == unknown {
				c.harms("writes to something that is not known: %s", command)
			} else if ok {
				c.written(to, "dd", false)
			}
		}
	}
}

// anyOf tells whether one of some words is an argument, or a letter of an argument.
func anyOf(words string, args []string) bool {
	for _, a := range args {
		for word := range strings.FieldsSeq(words) {
			short := len(word) == 2 && word[0] == '-' && len(a) > 1 && a[0] == '-' && a[1] != '-'
			if a == word || short && strings.Contains(a, word[1:]) {
				return true
			}
		}
	}
	return false
}

// harmless tells whether the only option of a program has it print something.
func harmless(but string, args []string) bool {
	options := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, "-") })
	return len(options) == 1 && isIn(but, options[0])
}

// flag is an option, with its value if it takes one. name has dashes only if it is a long one.
type flag struct{ name, value string }

type flags []flag

// has tells whether one of some options is given. Long ones may be shortened, or have an ending.
func (list flags) has(wanted string) bool {
	for want := range strings.FieldsSeq(wanted) {
		for _, f := range list {
			long := len(f.name) > 3 && len(want) > 3
			if f.name == want || long && (strings.HasPrefix(want, f.name) || strings.HasPrefix(f.name, want)) {
				return true
			}
		}
	}
	return false
}

// value joins the values of some options.
func (list flags) value(wanted string) (value string) {
	for _, f := range list {
		if isIn(wanted, f.name) {
			value += f.value
		}
	}
	return value
}

// parse splits arguments into options and operands. The letters in valued are short options that
// take a value. If leading is set, options end at the first operand.
func parse(args []string, valued string, leading bool) (list flags, operands []string) {
	for len(args) > 0 {
		a := args[0]
		if args = args[1:]; a == "--" {
			break
		}
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			if operands = append(operands, a); leading {
				break
			}
			continue
		}
		name, value, given := strings.Cut(a, "=")
		takes := len(name) > 2 && strings.Contains(valued, name[2:3])
		if !strings.HasPrefix(a, "--") {
			at := strings.IndexAny(a[1:], valued) + 1
			takes, given = at > 0, at > 0 && at+1 < len(a)
			var letters string
			if takes {
				letters, name, value = a[1:at], a[at:at+1], a[at+1:]
			} else {
				letters, name, value = a[1:len(a)-1], a[len(a)-1:], ""
			}
			for _, letter := range letters {
				list = append(list, flag{name: string(letter)})
			}
		}
		if takes && !given && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		list = append(list, flag{name, value})
	}
	return list, append(operands, args...)
}
