package danger

import (
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// handler follows a program by its arguments, the first of which is its name, and what comes in.
// It gives what the program prints.
type handler func(c *checker, args []string, in *string) string

var handlers map[string]handler

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true,
	"mksh": true, "rbash": true, "fish": true, "yash": true, "csh": true, "tcsh": true}

func init() { // they call each other
	handlers = map[string]handler{
		"eval": eval, "source": source, ".": source, "trap": trap, "cd": cd, "pushd": cd, "set": set,
		"alias": alias, "read": read, "mapfile": read, "readarray": read, "shift": shift, "fc": fc,
		"echo": echo, "printf": printf, "cat": cat, "tee": tee, "find": find, "xargs": xargs,
		"parallel": xargs, "git": git, "curl": download, "wget": download, "export": exports,
		"declare": exports, "command": lookup, "type": lookup, "which": lookup,
		"mktemp": prints("./tmp." + hole), "pwd": prints("."), "ls": prints("./" + hole),
		"batch": shellProgram,
		"at":    func(c *checker, args []string, in *string) string { return shellProgram(c, args[:1], in) },
	}
	for name := range strings.FieldsSeq("sort uniq head tail grep egrep fgrep rg") {
		handlers[name] = filter
	}
	for name := range strings.FieldsSeq("[ test hash ag ack man gh glab jq sed help apropos whatis touch " +
		"logger wall notify-send mail dpkg apt apt-get apt-cache npm yarn pnpm pip") {
		handlers[name] = prints(hole)
	}
	for name := range shells {
		handlers[name] = shellProgram
	}
	// Their output is made for eval and source.
	for name := range strings.FieldsSeq("ssh-agent direnv brew pyenv rbenv nodenv starship zoxide " +
		"dircolors opam minikube conda lesspipe fnm mise luarocks") {
		handlers[name] = prints("")
	}
}

func prints(out string) handler { return func(*checker, []string, *string) string { return out } }

// call follows a simple command, whose words are plain.
func (c *checker) call(args []string, in *string) string {
	c.spend()
	if c.depth++; c.depth > maxDepth {
		panic(limit("it is nested too deep"))
	}
	defer func() { c.depth-- }()
	c.reader = ""
	name, known := programOf(args[0])
	if !known {
		c.unsure("cannot tell what runs: %s", strings.Join(args, " "))
		c.trailing(args, in)
		return hole
	}
	c.rules.match(c.v, strings.Join(args, " "))
	c.rules.match(c.v, strings.Join(append([]string{name}, args[1:]...), " "))
	if body, ok := c.sh.funcs[args[0]]; ok && c.calls < maxCalls {
		delete(c.uncalled, args[0])
		before := c.sh.args
		c.sh.args, c.calls = args[1:], c.calls+1
		out := c.stmt(body, in)
		c.sh.args, c.calls = before, c.calls-1
		return out
	}
	if text, ok := c.files[c.resolve(args[0])]; ok && strings.Contains(args[0], "/") {
		return c.program(text, args, in)
	}
	if len(args) > 1 && (args[1] == "--help" || args[1] == "--version" || name == "shutdown" && args[1] == "-c") {
		return hole
	}
	if why := harmOf(c, name, args); why != "" {
		c.harms("%s: %s", why, strings.Join(args, " "))
	}
	if h := handlers[name]; h != nil {
		return h(c, args, in)
	}
	if w, ok := wrappers[name]; ok {
		return w.follow(c, args, in)
	}
	if p, ok := interpreters[name]; ok {
		return p.follow(c, args, in)
	}
	if len(args) > 1 && args[1] == "completion" {
		return ""
	}
	c.trailing(args, in)
	return hole
}

// programOf is the name of a program without its folder and its version, if that is known.
func programOf(word string) (name string, known bool) {
	if word == "[" {
		return word, true
	}
	name = path.Base(word)
	folder, _ := path.Split(word)
	// A glob in a folder of the project is as good as its files.
	project := folder != "" && !path.IsAbs(word) && !strings.ContainsAny(folder, hole+"*?[") &&
		!strings.Contains(folder, "..")
	if !project && (strings.Contains(name, hole) || strings.ContainsAny(name, "*?[") && matchesAny(name)) {
		return "", false
	}
	if strings.HasPrefix(name, "mkfs.") {
		return "mkfs", true
	}
	if base := strings.TrimRight(name, "0123456789.-"); base != "" && interpreters[base].letters != "" {
		return base, true
	}
	return name, name != ""
}

// matchesAny tells whether a glob may be the name of a program that is known here.
func matchesAny(glob string) bool {
	for _, names := range []iter.Seq[string]{maps.Keys(always), maps.Keys(ruleOf), maps.Keys(subcommands),
		maps.Keys(handlers), maps.Keys(wrappers), maps.Keys(interpreters), slices.Values(verbs)} {
		for name := range names {
			if ok, _ := path.Match(glob, name); ok {
				return true
			}
		}
	}
	return false
}

// trailing looks for commands among the arguments of a program that is not known: behind "--", as
// a text with blanks, or from a verb on that destroys.
func (c *checker) trailing(args []string, in *string) {
	c.subshell(func() string {
		c.sh.cwd = ""
		for i, a := range args[1:] {
			name, _ := programOf(a)
			switch rest := args[i+2:]; {
			case a == "--" && len(rest) > 0 && !strings.Contains(rest[0], hole):
				return c.call(rest, in)
			case shells[name] && len(rest) == 0:
				return c.call(args[i+1:], in)
			case slices.Contains(verbs, name) && len(rest) > 0, shells[name],
				always[name] != "" && (args[1] == "run" || args[1] == "exec"):
				c.quietly(func() { c.call(args[i+1:], nil) })
			case strings.Contains(a, " "):
				c.quietly(func() { c.phrases(a) })
			}
		}
		return ""
	})
}

// phrases follows a text as a command, and what is behind "=" and "!" in it, as in the settings of
// git, ssh and tar, and the commands of editors.
func (c *checker) phrases(text string) {
	_, setting, _ := strings.Cut(text, "=")
	_, escaped, _ := strings.Cut(text, "!")
	if name, _, set := strings.Cut(text, "="); set && !strings.Contains(name, " ") {
		text = ""
	}
	for _, t := range []string{text, strings.TrimPrefix(setting, "exec="), escaped} {
		c.apart(t, nil)
	}
}

// program follows a text that a shell reads with arguments, the first of which is $0.
func (c *checker) program(text string, args []string, in *string) string {
	return c.subshell(func() string {
		c.sh.zero, c.sh.args = args[0], args[1:]
		return c.script(text, in)
	})
}

// file follows what a shell reads from a file, if the text says what is in it.
func (c *checker) file(name string, args []string, in *string) string {
	if text, ok := c.files[c.resolve(name)]; ok {
		return c.program(text, append([]string{name}, args...), in)
	}
	if (name == "/dev/stdin" || name == "/dev/fd/0" || name == "-") && in != nil {
		return c.program(*in, append([]string{name}, args...), nil)
	}
	return hole
}

// shellProgram follows sh, bash and the like.
func shellProgram(c *checker, args []string, in *string) string {
	values, rest := leading(args[1:], "oO")
	_, code := values["c"]
	_, stdin := values["s"]
	switch {
	case code && len(rest) > 0:
		zero := append(rest[1:len(rest):len(rest)], args[0])
		return c.program(rest[0], zero[:max(1, len(rest)-1)], in)
	case in != nil && !code && (stdin || len(rest) == 0 || rest[0] == "-"):
		return c.program(*in, append([]string{args[0]}, rest...), nil)
	case len(rest) == 0 || rest[0] == "-":
		c.reader = "sh"
		return hole
	}
	return c.file(rest[0], rest[1:], in)
}

func eval(c *checker, args []string, in *string) string {
	return c.script(strings.Join(args[1:], " "), in)
}

func source(c *checker, args []string, in *string) string {
	if len(args) < 2 {
		return ""
	}
	return c.file(args[1], args[2:], in)
}

func trap(c *checker, args []string, _ *string) string {
	if _, rest := options(args[1:], ""); len(rest) > 1 {
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
	_, rest := options(args[1:], "")
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

func set(c *checker, args []string, _ *string) string {
	for i, a := range args[1:] {
		if a == "--" {
			c.sh.args = args[i+2:]
			break
		}
		if !strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "+") && (i == 0 || !strings.HasSuffix(args[i], "o")) {
			c.sh.args = args[i+1:]
			break
		}
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
	_, names := options(args[1:], "adinNptuOsCc")
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
	rest := args[1:]
	if len(rest) > 1 && rest[0] == "-v" {
		c.sh.vars[rest[1]] = text(hole)
		return ""
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return ""
	}
	return formatted(rest[0], rest[1:])
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

func cat(c *checker, args []string, in *string) string {
	_, names := options(args[1:], "")
	if len(names) == 0 || names[0] == "-" {
		return filter(c, args, in)
	}
	out := ""
	for _, name := range names {
		text, ok := c.files[c.resolve(name)]
		if !ok {
			text = hole
		}
		out += text
	}
	return bounded(out)
}

func tee(c *checker, args []string, in *string) string {
	flags, names := options(args[1:], "")
	out := filter(c, args, in)
	for _, name := range names {
		c.written(name, "tee", slices.Contains(flags, "a"))
		c.files[c.resolve(name)] = out
	}
	return out
}

// download writes what nobody here knows to a file.
func download(c *checker, args []string, _ *string) string {
	for i, a := range args[:len(args)-1] {
		if a == "-o" || a == "-O" || a == "--output" || a == "--output-document" {
			c.written(args[i+1], args[0], false)
			c.files[c.resolve(args[i+1])] = hole
		}
	}
	return hole
}

// lookup is command, type and which, of which the first also runs programs.
func lookup(c *checker, args []string, in *string) string {
	flags, rest := options(args[1:], "")
	if len(rest) == 0 {
		return hole
	}
	if args[0] == "command" && !slices.Contains(flags, "v") && !slices.Contains(flags, "V") {
		return c.call(rest, in)
	}
	return rest[0]
}
