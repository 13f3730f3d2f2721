package danger

import (
	"path"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

func eval(c *checker, args []string, in *string) string {
	return c.script(strings.Join(args[1:], " "), in)
}

// source follows a script with its arguments.
func source(c *checker, args []string, in *string) string {
	if len(args) > 1 {
		if text, ok := c.content(args[1], in); ok {
			return c.program(text, args[1:], nil)
		}
	}
	return hole
}

func trap(c *checker, args []string, _ *string) string {
	if _, rest := parse(args[1:], "", true); len(rest) > 1 {
		c.script(rest[0], nil)
	}
	return ""
}

// fc runs lines of the history, unless it lists them.
func fc(c *checker, args []string, _ *string) string {
	if len(args) < 2 || !strings.HasPrefix(args[1], "-l") {
		c.unsure("cannot tell what runs: %s", strings.Join(args, " "))
	}
	return hole
}

func cd(c *checker, args []string, _ *string) string {
	_, rest := parse(args[1:], "", true)
	to := "/home/" + me
	if len(rest) > 0 {
		to = rest[0]
	}
	switch {
	case path.IsAbs(to):
		c.sh.cwd = path.Clean(to)
	case c.sh.cwd != "" && !strings.HasPrefix(to, hole) && to != "-":
		c.sh.cwd = path.Join(c.sh.cwd, to)
	default:
		c.sh.cwd = ""
	}
	return ""
}

// set sets the arguments of the shell, if there are any behind the options.
func set(c *checker, args []string, _ *string) string {
	if _, rest := parse(args[1:], "o", true); len(rest) > 0 || args[len(args)-1] == "--" {
		c.sh.args = append([]string{}, rest...)
	}
	return ""
}

func shift(c *checker, _ []string, _ *string) string {
	if len(c.sh.args) > 0 {
		c.sh.args = c.sh.args[1:]
	}
	return ""
}

func alias(c *checker, args []string, _ *string) string {
	for _, a := range args[1:] {
		if name, value, ok := strings.Cut(a, "="); ok {
			c.sh.aliases[name] = value
			c.quietly(func() { c.apart(value, nil) })
		}
	}
	return ""
}

func exports(c *checker, args []string, _ *string) string {
	for _, a := range args[1:] {
		if name, value, ok := strings.Cut(a, "="); ok && syntax.ValidName(name) {
			c.assign(name, value)
		}
	}
	return ""
}

// read takes lines of what comes in, of which nobody here knows.
func read(c *checker, args []string, _ *string) string {
	_, names := parse(args[1:], "adinNptuOsCc", true)
	for _, name := range append(names, "REPLY", "MAPFILE") {
		c.sh.vars[name] = text(hole)
	}
	return ""
}

func echo(_ *checker, args []string, _ *string) string {
	rest, escapes := args[1:], false
	for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' && strings.Trim(rest[0][1:], "neE") == "" {
		escapes = escapes || strings.Contains(rest[0], "e")
		rest = rest[1:]
	}
	out := strings.Join(rest, " ") + "\n"
	if escapes {
		return formatted(strings.ReplaceAll(out, "%", "%%"), nil)
	}
	return out
}

func printf(c *checker, args []string, _ *string) string {
	given, rest := parse(args[1:], "v", true)
	out := hole
	if len(rest) > 0 {
		out = formatted(rest[0], rest[1:])
	}
	if name := given.value("v"); name != "" {
		c.sh.vars[name], out = text(out), ""
	}
	return out
}

// formatted is what printf prints.
func formatted(format string, args []string) string {
	out := ""
	for {
		text, n, err := expand.Format(nil, format, args)
		if err != nil || len(out) > maxText {
			return hole
		}
		if out, args = out+text, args[n:]; n == 0 || len(args) == 0 {
			return out
		}
	}
}

// filter gives some of what comes in.
func filter(_ *checker, args []string, in *string) string {
	if in != nil {
		return *in
	}
	return hole
}

func cat(c *checker, args []string, in *string) (out string) {
	_, names := parse(args[1:], "", false)
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		text, ok := c.content(name, in)
		if !ok {
			text = hole
		}
		out = bounded(out + text)
	}
	return out
}

func tee(c *checker, args []string, in *string) string {
	given, names := parse(args[1:], "", false)
	out := filter(c, args, in)
	for _, name := range names {
		c.written(name, "tee", given.has("a --append"))
		c.files[c.resolve(name)] = out
	}
	return out
}

// download writes what nobody here knows to a file.
func download(c *checker, args []string, _ *string) string {
	given, _ := parse(args[1:], "oO", false)
	for _, f := range given {
		if isIn("o O --output --output-document", f.name) {
			c.written(f.value, args[0], false)
			c.files[c.resolve(f.value)] = hole
		}
	}
	return hole
}

// lookup is command, type and which, of which the first also runs programs.
func lookup(c *checker, args []string, in *string) string {
	given, rest := parse(args[1:], "", true)
	if len(rest) == 0 {
		return hole
	}
	if args[0] == "command" && !given.has("v V") {
		return c.call(rest, in)
	}
	return rest[0]
}

// sedRuns is a command of sed that runs one of a shell.
var sedRuns = regexp.MustCompile(`^[0-9$]*e (.+)`)

func sed(c *checker, args []string, _ *string) string {
	for _, a := range args[1:] {
		if m := sedRuns.FindStringSubmatch(a); m != nil {
			c.quietly(func() { c.apart(m[1], nil) })
		}
	}
	return hole
}
