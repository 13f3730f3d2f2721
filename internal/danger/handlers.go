package danger

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// handlers check programs that change the shell, write files, or run commands in a special way. The
// first argument of a handler is the name of the program.
var handlers map[string]func(c *checker, args []string)

func init() { // avoids an initialization cycle, because handlers call each other
	handlers = map[string]func(*checker, []string){
		"eval": func(c *checker, args []string) { c.script(strings.Join(args[1:], " ")) },
		"echo": echo, "printf": echo, "cat": cat, "curl": download, "wget": download,
		".": source, "source": source, "cd": changeDir, "pushd": changeDir,
		"alias": alias, "command": lookup, "type": lookup, "which": lookup, "find": find, "git": git,
	}
}

// wrappers are programs that run the command in their arguments.
var wrappers = strings.Fields("trap sudo doas pkexec builtin exec nohup nice ionice chrt taskset timeout " +
	"time setsid stdbuf unbuffer busybox toybox watch env su runuser flock script chroot unshare " +
	"nsenter systemd-run strace setpriv ssh fakeroot chronic sshpass xvfb-run npx xargs parallel")

// wrapped checks the command in the arguments of a wrapper. A word after a short option can be the
// option's value or the command. So wrapped checks each such word as a command too.
func (c *checker) wrapped(name string, args []string) {
	if isIn("xargs parallel", name) { // these programs add arguments to the command
		args = append(args[:len(args):len(args)], unknown)
	}
	operands := 1
	if isIn("chrt taskset timeout flock chroot ssh", name) {
		operands = 2
	}
	isValue := false
	for i, a := range args {
		switch {
		case a == "--" || a == "":
			continue
		case strings.HasPrefix(a, "-"):
			isValue = len(a) == 2 && a != "-0"
			continue
		case !isValue && c.export(a):
			continue
		case strings.Contains(a, " "):
			c.option(a)
		case isIn("ssh watch", name):
			c.sh.cwd = ""
			c.onlyHarmful(func() { c.script(strings.Join(args[i:], " ")) })
		case isValue && strings.Contains(a, unknown):
			c.onlyHarmful(func() { c.call(args[i:]) })
		default:
			c.call(args[i:])
		}
		if !isValue {
			operands--
		}
		if isValue = false; operands == 0 {
			return
		}
	}
	c.shell([]string{name})
}

// shell checks a call of sh, bash or another shell.
func (c *checker) shell(args []string) {
	given, rest := parse(args[1:], "oO", true)
	fromInput := given.has("s") || len(rest) == 0 || rest[0] == "-"
	switch {
	case given.has("c") && len(rest) > 0:
		c.subshell(func() {
			c.sh.args = append([]string{}, rest[min(2, len(rest)):]...)
			c.script(rest[0])
		})
	case fromInput && c.sh.in != nil:
		c.run(*c.sh.in, rest)
	case fromInput:
		c.reader = "sh"
	default:
		source(c, append(args[:1:1], rest...))
	}
}

// source checks the script that the command . or source reads. It does nothing if the script
// existed before the command.
func source(c *checker, args []string) {
	if len(args) > 1 {
		if text, ok := c.content(args[1]); ok {
			c.run(text, args[2:])
		}
	}
}

// alias checks the command of an alias, with unknown arguments. It simulates the alias as a
// function.
func alias(c *checker, args []string) {
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		c.child(value + " " + unknown)
		if program, _, _ := strings.Cut(value, " "); syntax.ValidName(name) && program != "" && program != name {
			c.script(name + "() { " + value + " \"$@\"\n}")
		}
	}
}

func changeDir(c *checker, args []string) {
	_, rest := parse(args[1:], "", true)
	to := append(rest, "/home/"+user)[0]
	switch {
	case path.IsAbs(to):
		c.sh.cwd = path.Clean(to)
	case c.sh.cwd != "" && !strings.HasPrefix(to, unknown) && to != "-":
		c.sh.cwd = path.Join(c.sh.cwd, to)
	default:
		c.sh.cwd = ""
	}
}

// echo simulates echo and printf. The output is known for plain text and for formats that contain
// only %s.
func echo(c *checker, args []string) {
	given, rest := parse(args[1:], "v", true)
	text := strings.Join(rest, " ") + "\n"
	if args[0] == "printf" && len(rest) > 0 {
		text, _, _ = expand.Format(nil, rest[0], rest[1:])
		verbs := strings.Count(rest[0], "%")
		if verbs != strings.Count(rest[0], "%s") || len(rest) > verbs+1 && verbs > 0 {
			text = unknown
		}
	} else if given.has("e") && strings.Contains(text, `\`) {
		text = unknown
	}
	c.out = bounded(text)
}

func cat(c *checker, args []string) {
	_, names := parse(args[1:], "", false)
	if text, ok := c.content(append(names, "-")[0]); ok && len(names) < 2 {
		c.out = text
	}
}

// download simulates curl and wget. The content of the downloaded file is unknown.
func download(c *checker, args []string) {
	given, _ := parse(args[1:], "oO", false)
	name := given.value("o O --output --output-document")
	c.write(name, args[0], false)
	c.files[c.resolve(name)] = unknown
}

// lookup simulates the programs command, type and which. The first one runs a program. The other
// two print the program's path.
func lookup(c *checker, args []string) {
	given, _ := parse(args[1:], "", true)
	if args[0] == "command" && !given.has("v V") {
		c.wrapped(args[0], args[1:])
		return
	}
	c.out = args[len(args)-1]
}

// filters are the options of find that restrict which files it finds.
const filters = "-name -iname -path -regex -empty -newer -mtime -mmin"

// find checks the actions of the program find: deleting the files, running a command on them, or
// writing a list of them.
func find(c *checker, args []string) {
	found, remove := ".", "-r"
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		found = args[1]
	}
	if slices.ContainsFunc(args, func(a string) bool { return isIn(filters, a) }) {
		found, remove = strings.TrimRight(found, "/")+"/"+unknown, "--"
	}
	for i, a := range args {
		switch rest := args[i+1:]; {
		case a == "-delete":
			c.call([]string{"rm", remove, found})
		case isIn("-exec -execdir -ok -okdir", a) && len(rest) > 0:
			end := slices.IndexFunc(rest, func(a string) bool { return a == ";" || a == "+" })
			command := strings.Join(rest[:max(end, 1)], "\x00")
			command = bounded(strings.ReplaceAll(command, "{}", found))
			c.subshell(func() { c.call(strings.Split(command, "\x00")) })
		case strings.HasPrefix(a, "-fprint") && len(rest) > 0:
			c.write(rest[0], "find", false)
		}
	}
}

// git checks the commands in git settings and in the arguments of some subcommands. It also applies
// the rules to each subcommand.
func git(c *checker, args []string) {
	given, rest := parse(args[1:], "cCgwn", true)
	if len(rest) == 0 {
		return
	}
	c.subshell(func() {
		for setting := range strings.Lines(given.value("c")) {
			c.option(setting)
		}
		if dir := given.value("C --work-tree"); dir != "" {
			changeDir(c, []string{"cd", "--", dir})
		}
		c.applyRules("git-"+rest[0], rest)
		if isIn("config bisect submodule rebase filter-branch difftool", rest[0]) {
			c.embedded(rest)
		}
	})
}
