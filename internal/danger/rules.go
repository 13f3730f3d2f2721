package danger

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// harmful lists patterns of harmful commands. They match the words of a command, joined with
// blanks.
var harmful = []struct{ pattern, why string }{
	{`(mkfs|mke2fs|newfs|mkswap)\b`, "makes a file system"},
	{`blkdiscard\b`, "discards a device"},
	{`(lv|vg|pv)remove\b`, "removes volumes"},
	{`(shutdown|reboot|poweroff|halt|kexec)( |$)`, "stops the system"},
	{`(init|telinit) (.* )?[016sS]( |$)`, "stops the system"},
	{`(systemctl|loginctl) (.* )?(poweroff|reboot|halt|kexec|rescue|emergency|soft-reboot|` +
		`suspend|hibernate)( |$)`, "stops the system"},
	{`killall5\b`, "ends all processes"},
	{`(pkill|killall) (.* )?(\^?\.?\*?\$?|init|systemd|sshd)( |$)`,
		"ends many processes, or those that the system needs"},
	{`kill (.* )?1( |$)|kill .+ -1( |$)`, "ends all processes, or init"},
	{`(userdel|deluser)\b`, "removes a user"},
	{`crontab (.* )?-\w*r`, "removes all jobs of cron"},
	{`(iptables|ip6tables|nft|ufw) (.* )?(-F|-X|--flush|flush|reset|disable)\b`,
		"opens the firewall"},
	{`(cfdisk|fdisk|sfdisk|sgdisk|gdisk)\b`, "changes partitions"},
	{`parted (.* )?(mklabel|mktable|mkpart|rm|resizepart)\b`, "changes partitions"},
	{`wipefs (.* )?(-\w*[ao]|--all|--offset)`, "wipes signatures of file systems"},
	{`zpool (.* )?(destroy|labelclear)\b`, "destroys a pool"},
	{`cryptsetup (.* )?(luksFormat|luksErase|erase|luksKillSlot)\b`, "changes an encrypted device"},
	{`(nvme|hdparm) (.* )?(format|sanitize|--security-erase|--trim-sector-ranges)`, "erases a disk"},
	{`dd (.* )?if=/dev/zero\b`, "reads /dev/zero"},
	{`dd (.* )?of=\x01`, "writes to an unknown file"},
	{`mv (.* )?/dev/null( |$)`, "moves files to /dev/null"},
	{`fc\b`, "runs lines of the history"},
	{`hash (.* )?-p`, "replaces a program"},
}

// harmless matches commands that only print information, although a pattern in harmful matches
// them.
var harmless = lazyregexp.New(`^(shutdown -c|fc -l|\w*fdisk (-[lpdv]|--list|--print|--dump))\b`)

var harmfulPatterns = sync.OnceValue(func() (list []*regexp.Regexp) {
	for _, h := range harmful {
		list = append(list, regexp.MustCompile(`^(?:`+h.pattern+`)`))
	}
	return list
})

// programs contains the program names in the tables, and some other words. A glob pattern in a
// command could match these names.
var programs = sync.OnceValue(func() []string {
	text := strings.Join(slices.Concat(shells, wrappers, interpreters), " ")
	for _, h := range harmful {
		text += " " + h.pattern
	}
	for _, r := range changes {
		text += " " + r.names
	}
	return regexp.MustCompile(`\w+`).FindAllString(text, -1)
})

// operands selects the operands of a program that a rule applies to.
type operands int

const (
	all operands = iota
	last
	others // all operands except the last one
)

// changes lists programs that remove, change or overwrite their operands.
var changes = []struct {
	names  string
	flags  string // the rule applies only if one of these options is set; empty means always
	valued string // letters of the short options that take a value
	which  operands
	most   reach // operands with at most this reach are harmless; for overwrites, the method write decides
	why    string
}{
	{"rm srm wipe", "r R --recursive", "", all, project, "recursively removes"},
	{"tar", "--remove-files", "fC", all, project, "removes"},
	{"zip", "m --move", "b", all, project, "removes"},
	{"rsync", "--remove-source-files", "", others, project, "removes"},
	{"rimraf", "", "", all, project, "recursively removes"},
	{"rm unlink", "", "", all, outside, "removes"},
	{"chmod chown chgrp setfacl chattr", "r R --recursive", "", all, workdir,
		"changes permissions or owners of"},
	{"git-clean", "f --force", "e", all, workdir, "removes untracked files in"},
	{"shred truncate scrub", "", "srIn", all, temporary, "destroys"},
	{"mv", "", "", others, workdir, "moves"},
	{"rsync", "--del", "", last, workdir, "removes files without a source in"},
	{"mv cp install ln", "", "mogtS", last, overwrites, "overwriting"},
	{"sed", "i --in-place", "", last, overwrites, "overwriting"},
	{"tee shred truncate ed", "", "srInp", all, overwrites, "overwriting"},
}

// isIn reports whether word is in list. The words in list are separated by blanks.
func isIn(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// applyRules reports the harm that a command would do.
func (c *checker) applyRules(name string, args []string) {
	command := strings.Join(args, " ")
	words := strings.Join(append([]string{name}, args[1:]...), " ")
	c.countSteps(len(words) / 16)
	for i, p := range harmfulPatterns() {
		if p.MatchString(words) && !harmless().MatchString(words) {
			c.harm("%s: %s", harmful[i].why, command)
		}
	}
	for _, r := range changes {
		if !isIn(r.names, name) {
			continue
		}
		given, operands := parse(args[1:], r.valued, false)
		if r.flags != "" && !given.has(r.flags) || given.has("--dry-run") {
			continue
		}
		if name == "git-clean" && !given.has("n") {
			operands = append(operands, ".")
		}
		for i, o := range operands {
			isLast := i+1 == len(operands)
			switch reach := c.reach(o); {
			case r.which == last && !isLast, r.which == others && isLast:
			case r.most == overwrites:
				c.write(o, r.why, given.has("a --append"))
			case reach > r.most:
				c.harm("%s %s: %s", r.why, reach, command)
			}
		}
	}
	_, to, isOutput := strings.Cut(words+" ", " of=")
	if to, _, _ = strings.Cut(to, " "); isOutput && name == "dd" {
		c.write(to, "dd", false)
	}
	c.copies(name, args, to)
}

// copies reports a copy of an empty file over another file, and a copy of a destroyer under another
// name. to is the output of dd.
func (c *checker) copies(name string, args []string, to string) {
	_, operands := parse(args[1:], "mogtS", false)
	if name == "dd" && slices.Contains(args, "if=/dev/null") {
		operands = []string{"/dev/null", to}
	} else if !isIn("cp mv ln install", name) || len(operands) < 2 {
		return
	}
	from, to := operands[0], operands[len(operands)-1]
	if program := path.Base(from); from == "/dev/null" && name != "ln" {
		c.applyRules("truncate", []string{args[0], to})
	} else if slices.Contains(destroyers, program) && path.Base(to) != program {
		c.v.add(false, "gives the program %s another name: %s", program, strings.Join(args, " "))
	}
}

// options contains the options of a command and their values. The names of short options have no
// dash. If an option occurs several times, its value has one line per occurrence.
type options map[string]string

// has reports whether the command has one of the wanted options. A long option can be abbreviated,
// or have a suffix.
func (given options) has(wanted string) bool {
	for want := range strings.FieldsSeq(wanted) {
		for name := range given {
			if name == want || len(name) > 3 && len(want) > 3 &&
				(strings.HasPrefix(want, name) || strings.HasPrefix(name, want)) {
				return true
			}
		}
	}
	return false
}

// value returns the concatenated values of the wanted options.
func (given options) value(wanted string) (value string) {
	for name := range strings.FieldsSeq(wanted) {
		value += given[name]
	}
	return value
}

// parse splits arguments into options and operands. The letters in valued are the short options
// that take a value. If leading is true, the options end at the first operand.
func parse(args []string, valued string, leading bool) (given options, operands []string) {
	given = options{}
	for len(args) > 0 && args[0] != "--" {
		a := args[0]
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			if leading {
				break
			}
			operands, args = append(operands, a), args[1:]
			continue
		}
		args = args[1:]
		name, value, isSet := strings.Cut(a, "=")
		takes := len(name) > 2 && strings.Contains(valued, name[2:3])
		if !strings.HasPrefix(a, "--") {
			at := strings.IndexAny(a[1:], valued) + 1
			if takes = at > 0; !takes {
				at = len(a) - 1
			}
			for _, letter := range a[1:at] {
				given[string(letter)] += ""
			}
			name, value = a[at:at+1], a[at+1:]
			isSet = value != ""
		}
		if takes && !isSet && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if before := given[name]; before != "" {
			value = strings.TrimSuffix(before+"\n"+value, "\n")
		}
		given[name] = value
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return given, append(operands, args...)
}
