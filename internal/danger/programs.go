package danger

import (
	"slices"
	"strings"
)

// wrapper is a program that runs another one, which its arguments name.
type wrapper struct {
	valued string // short options that take a value
	subs   string // the command comes after one of these subcommands
	skip   int    // operands before the command
	code   string // a short option whose value a shell runs
	only   bool   // operands are no command
	joined bool   // a shell runs the operands, joined
}

var wrappers = map[string]wrapper{
	"sudo": {valued: "CDghpRrTtUu"}, "doas": {valued: "Cu"}, "pkexec": {}, "builtin": {},
	"exec": {valued: "a"}, "nohup": {}, "nice": {valued: "n"}, "ionice": {valued: "cnpPu"},
	"chrt": {valued: "TPDp", skip: 1}, "taskset": {skip: 1}, "timeout": {valued: "ks", skip: 1},
	"time": {valued: "fo"}, "setsid": {}, "stdbuf": {valued: "ioe"}, "unbuffer": {}, "busybox": {},
	"toybox": {}, "watch": {valued: "nqs", joined: true}, "env": {valued: "uCa", code: "S"},
	"su": {valued: "sgGw", code: "c", only: true}, "runuser": {valued: "ugGsw", code: "c"},
	"flock": {valued: "wE", skip: 1, code: "c"}, "script": {valued: "ItOBEom", code: "c", only: true},
	"chroot": {skip: 1}, "unshare": {valued: "SGRw"}, "nsenter": {valued: "tSGrw"},
	"systemd-run": {valued: "pEHM"}, "strace": {valued: "aeEIoOpPsSuUX"}, "setpriv": {},
	"ssh": {valued: "BbcDEeFIiJLlmOopQRSWw", skip: 1, joined: true}, "fakeroot": {}, "chronic": {},
	"sshpass": {valued: "pfdP"}, "xvfb-run": {valued: "sneafp"}, "npx": {valued: "p"},
	"poetry": {subs: "run"}, "pipenv": {subs: "run"}, "uv": {subs: "run"}, "bundle": {subs: "exec"},
	"npm": {subs: "exec x"}, "yarn": {subs: "exec dlx"}, "pnpm": {subs: "exec dlx"},
}

// follow follows the command in the arguments of a wrapper.
func (w wrapper) follow(c *checker, args []string, in *string) string {
	given, rest := parse(args[1:], w.valued+w.code, !w.only)
	if w.only {
		rest = nil
	}
	skip := w.skip
	if w.subs != "" {
		if skip = 1; len(rest) == 0 || !isIn(w.subs, rest[0]) {
			return hole
		}
	}
	for ; skip > 0 && len(rest) > 0; skip-- { // options may come behind operands too
		var more flags
		more, rest = parse(rest[1:], w.valued+w.code, true)
		given = append(given, more...)
	}
	return c.subshell(func() string {
		if dir := given.value("C"); dir != "" {
			cd(c, []string{"cd", dir}, nil)
		}
		for len(rest) > 0 && strings.Contains(rest[0], "=") && !strings.HasPrefix(rest[0], "/") {
			exports(c, []string{"", rest[0]}, nil)
			rest = rest[1:]
		}
		text := given.value(w.code + " --command --split-string")
		if w.joined {
			c.phrases(given.value("o"))
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

// shellProgram follows sh, bash and the like.
func shellProgram(c *checker, args []string, in *string) string {
	given, rest := parse(args[1:], "oO", true)
	switch code := given.has("c"); {
	case code && len(rest) > 1:
		return c.program(rest[0], rest[1:], in)
	case code && len(rest) > 0:
		return c.program(rest[0], args[:1], in)
	case in != nil && (given.has("s") || len(rest) == 0 || rest[0] == "-"):
		return c.program(*in, append(args[:1:1], rest...), nil)
	case len(rest) == 0 || rest[0] == "-":
		c.reader = "sh"
		return hole
	}
	return source(c, append(args[:1:1], rest...), in)
}

// find runs commands on the files that it finds, and removes them. fd does too.
func find(c *checker, args []string, _ *string) string {
	n := 1
	for n < len(args) && !strings.HasPrefix(args[n], "-") && args[n] != "(" && args[n] != "!" {
		n++
	}
	starts, tests := args[1:n], args[n:]
	some := slices.ContainsFunc(tests, func(t string) bool {
		return isIn("-name -iname -path -regex -empty -newer -mtime -mmin", t)
	})
	fd := !strings.HasSuffix(args[0], "find")
	if fd { // a pattern comes first
		given, words := parse(before(args[1:], "-x", "-X", "--exec", "--exec-batch"), "EScdejot", false)
		some, starts = len(words) > 0 || given.has("e --extension"), words[min(1, len(words)):]
	}
	if len(starts) == 0 {
		starts = []string{"."}
	}
	out := ""
	for _, start := range starts {
		found, remove := start, "-r"
		if some {
			found, remove = strings.TrimRight(start, "/")+"/"+hole, "--"
		}
		out += found + "\n"
		for i, t := range tests {
			switch rest := tests[i+1:]; {
			case t == "-delete":
				c.call([]string{"rm", remove, found}, nil)
			case strings.HasPrefix(t, "-exec"), strings.HasPrefix(t, "-ok"):
				c.each(before(rest, ";", "+"), "{}", found)
			case fd && isIn("-x -X --exec --exec-batch", t):
				c.each(append(before(rest, ";"), "{}"), "{}", found)
			case strings.HasPrefix(t, "-fprint") && len(rest) > 0:
				c.written(rest[0], "find", false)
			}
		}
	}
	return bounded(out)
}

// before is a copy of a list up to the first of some words.
func before(list []string, ends ...string) []string {
	end := slices.IndexFunc(list, func(word string) bool { return slices.Contains(ends, word) })
	if end < 0 {
		end = len(list)
	}
	return slices.Clone(list[:end])
}

// each follows a command that gets a word in place of a mark.
func (c *checker) each(command []string, mark, word string) {
	list := slices.Clone(command)
	for i := range list {
		list[i] = bounded(strings.ReplaceAll(list[i], mark, word))
	}
	if len(list) > 0 {
		c.subshell(func() string { return c.call(list, nil) })
	}
}

// xargs is parallel too.
func xargs(c *checker, args []string, in *string) string {
	given, rest := parse(args[1:], "adEeIiLlnPs", true)
	if len(rest) == 0 {
		return filter(c, args, in)
	}
	words := []string{hole}
	if in != nil && *in != hole && !given.has("a") {
		words = strings.FieldsFunc(*in, func(r rune) bool { return strings.ContainsRune(" \t\n\x00", r) })
	}
	mark, text := given.value("I"), strings.Contains(rest[0], " ") // parallel takes a text
	if mark == "" && !text {
		list := append(rest[:len(rest):len(rest)], words[:min(len(words), maxWords)]...)
		c.subshell(func() string { return c.call(list, nil) })
		return hole
	}
	if mark == "" {
		mark = "{}"
	}
	for _, w := range words[:min(len(words), maxMatches)] {
		if c.each(rest, mark, w); text {
			c.apart(bounded(strings.ReplaceAll(strings.Join(rest, " "), mark, w)), nil)
		}
	}
	return hole
}

// git removes by clean, and runs what settings, aliases and some of its subcommands name.
func git(c *checker, args []string, _ *string) string {
	given, rest := parse(args[1:], "cCgwn", true)
	return c.subshell(func() string {
		for _, f := range given {
			switch f.name {
			case "c":
				c.phrases(f.value)
			case "C", "--work-tree":
				cd(c, []string{"cd", "--", f.value}, nil)
			}
		}
		if len(rest) == 0 {
			return hole
		}
		switch rest[0] {
		case "clean":
			options, paths := parse(rest[1:], "e", false)
			if paths = append(paths, "."); options.has("f --force") && !options.has("n --dry-run") {
				for _, p := range paths {
					if c.reach(p) == system {
						c.harms("git removes untracked files in %s: %s", system, strings.Join(args, " "))
					}
				}
			}
		case "ls-files", "diff", "status", "rev-parse":
			return "./" + hole
		case "config", "bisect", "submodule", "rebase", "filter-branch", "difftool":
			c.trailing(rest, nil)
		}
		return hole
	})
}

// makefile follows the recipes of a makefile that the text says.
func makefile(c *checker, args []string, in *string) string {
	given, _ := parse(args[1:], "fCIoW", false)
	if text, ok := c.content(given.value("f --file --makefile"), in); ok {
		if text == hole {
			c.unsure("cannot tell what runs: %s", strings.Join(args, " "))
		}
		for line := range strings.Lines(text) {
			_, recipe, _ := strings.Cut(line, ";")
			if strings.HasPrefix(line, "\t") {
				recipe = strings.TrimLeft(line, "\t@+-")
			}
			c.quietly(func() { c.apart(recipe, nil) })
		}
	}
	c.trailing(args, in)
	return hole
}
