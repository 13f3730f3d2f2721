package danger

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// wrapper is a program that runs another, which its arguments name.
type wrapper struct {
	valued string // short options that take a value
	skip   int    // operands before the command
	code   string // short options whose value a shell runs
	joined bool   // a shell runs the operands, joined
}

var wrappers = map[string]wrapper{
	"sudo": {valued: "CDghpRrTtUu"}, "doas": {valued: "Cu"}, "pkexec": {}, "builtin": {},
	"exec": {valued: "a"}, "nohup": {}, "nice": {valued: "n"}, "ionice": {valued: "cnpPu"},
	"chrt": {valued: "TPDp", skip: 1}, "taskset": {skip: 1}, "timeout": {valued: "ks", skip: 1},
	"time": {valued: "fo"}, "setsid": {}, "stdbuf": {valued: "ioe"}, "unbuffer": {}, "busybox": {},
	"toybox": {}, "watch": {valued: "nqs", joined: true}, "env": {valued: "uCa", code: "S"},
	"su": {valued: "sgGw", skip: 99, code: "c"}, "runuser": {valued: "ugGsw", code: "c"},
	"flock": {valued: "wE", skip: 1, code: "c"}, "script": {valued: "ItOBEom", skip: 99, code: "c"},
	"chroot": {skip: 1}, "unshare": {valued: "SGRw"}, "nsenter": {valued: "tSGrw"},
	"systemd-run": {valued: "pEHM"}, "strace": {valued: "aeEIoOpPsSuUX"}, "setpriv": {},
	"ssh": {valued: "BbcDEeFIiJLlmOopQRSWw", skip: 1, joined: true}, "fakeroot": {}, "chronic": {},
	"sshpass": {valued: "pfdP"}, "poetry": {skip: 1}, "pipenv": {skip: 1}, "uv": {skip: 1},
	"bundle": {skip: 1}, "xvfb-run": {valued: "sneafp"}, "npx": {valued: "p"},
}

// leading splits arguments into options with their values, up to the first operand, and the rest.
func leading(args []string, valued string) (values map[string]string, rest []string) {
	values = map[string]string{}
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		if strings.HasPrefix(a, "--") {
			name, value, given := strings.Cut(a, "=")
			if !given && len(args) > 0 && strings.Contains(valued, name[2:3]) {
				value, args = args[0], args[1:]
			}
			values[name] = value
			continue
		}
		for i, letter := range a[1:] {
			value := ""
			if strings.ContainsRune(valued, letter) {
				if value = a[i+2:]; value == "" && len(args) > 0 {
					value, args = args[0], args[1:]
				}
			}
			if values[string(letter)] = value; value != "" {
				break
			}
		}
	}
	return values, args
}

// follow follows the command in the arguments of a wrapper.
func (w wrapper) follow(c *checker, args []string, in *string) string {
	values, rest := leading(args[1:], w.valued+w.code)
	for skip := w.skip; skip > 0 && len(rest) > 0; skip-- { // su - root -c "…" has options behind operands
		var more map[string]string
		more, rest = leading(rest[1:], w.valued+w.code)
		maps.Copy(values, more)
	}
	return c.subshell(func() string {
		if dir := values["C"]; dir != "" {
			cd(c, []string{"cd", dir}, nil)
		}
		for len(rest) > 0 && strings.Contains(rest[0], "=") && !strings.HasPrefix(rest[0], "/") {
			exports(c, rest[:1], nil)
			rest = rest[1:]
		}
		text := values[w.code] + values["--command"] + values["--split-string"]
		if w.joined {
			c.phrases(values["o"])
			c.sh.cwd = ""
			text, rest = strings.Join(rest, " "), nil
		}
		switch {
		case text != "":
			return c.script(text+" "+quoted(rest), in)
		case len(rest) > 0:
			return c.call(rest, in)
		case in != nil: // echo … | ssh host
			return c.script(*in, nil)
		}
		c.reader = "sh"
		return hole
	})
}

// find runs commands on what it finds, and removes.
func find(c *checker, args []string, _ *string) string {
	n := slices.IndexFunc(args[1:], func(a string) bool { return a != "" && strings.Contains("-(!", a[:1]) })
	if n < 0 {
		n = len(args) - 1
	}
	starts, tests := args[1:n+1], args[n+1:]
	if len(starts) == 0 {
		starts = []string{"."}
	}
	some := slices.ContainsFunc(tests, func(t string) bool {
		return slices.Contains(strings.Fields("-name -iname -path -regex -empty -newer -mtime -mmin"), t)
	})
	out := ""
	for _, start := range starts {
		found := strings.TrimRight(start, "/") + "/" + hole
		out += found + "\n"
		for i, t := range tests {
			switch r := c.reach(start); {
			case t == "-delete" && (r == system || r > small && !some):
				c.harms("find removes %s: %s", r, start)
			case strings.HasPrefix(t, "-exec"), strings.HasPrefix(t, "-ok"):
				end := slices.IndexFunc(tests[i:], func(a string) bool { return a == ";" || a == "+" })
				if end > 1 {
					c.each(tests[i+1:i+end], "{}", found)
				}
			case strings.HasPrefix(t, "-fprint") && i+1 < len(tests):
				c.written(tests[i+1], "find", false)
			}
		}
	}
	return bounded(out)
}

// each follows a command in which a mark stands for a word.
func (c *checker) each(command []string, mark, word string) {
	list := slices.Clone(command)
	for i := range list {
		list[i] = bounded(strings.ReplaceAll(list[i], mark, word))
	}
	c.subshell(func() string { return c.call(list, nil) })
}

// xargs is parallel too.
func xargs(c *checker, args []string, in *string) string {
	values, rest := leading(args[1:], "adEeIiLlnPs")
	if len(rest) == 0 {
		return filter(c, args, in)
	}
	words := []string{hole}
	if _, file := values["a"]; in != nil && *in != hole && !file {
		words = strings.FieldsFunc(*in, func(r rune) bool { return strings.ContainsRune(" \t\n\x00", r) })
	}
	if mark := cmp.Or(values["I"], "{}"); values["I"] != "" || strings.Contains(rest[0], " ") {
		for _, w := range words[:min(len(words), maxMatches)] {
			if c.each(rest, mark, w); strings.Contains(rest[0], " ") { // parallel
				c.apart(strings.ReplaceAll(strings.Join(rest, " "), mark, w), nil)
			}
		}
	} else {
		list := append(slices.Clone(rest), words[:min(len(words), maxWords)]...)
		c.subshell(func() string { return c.call(list, nil) })
	}
	return hole
}

// git removes by clean, and runs what settings, aliases and some of its subcommands name.
func git(c *checker, args []string, _ *string) string {
	cwd, rest := ".", args[1:]
	for len(rest) > 1 && strings.HasPrefix(rest[0], "-") {
		switch value := rest[1]; rest[0] {
		case "-C":
			if cwd = path.Join(cwd, value); path.IsAbs(value) {
				cwd = value
			}
			rest = rest[1:]
		case "-c":
			c.phrases(value)
			rest = rest[1:]
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return hole
	}
	switch rest[0] {
	case "clean":
		flags, paths := options(rest[1:], "e")
		for _, p := range append(paths, cwd) {
			if slices.Contains(flags, "f") && !slices.Contains(flags, "n") && c.reach(p) == system {
				c.harms("git removes what it does not track in %s: %s", system, p)
			}
		}
	case "ls-files", "diff", "status", "rev-parse":
		return "./" + hole
	case "config", "bisect", "submodule", "rebase", "filter-branch", "difftool":
		c.trailing(rest, nil)
	}
	return hole
}
