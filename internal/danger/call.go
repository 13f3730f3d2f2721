package danger

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// handler follows a program by its arguments, the first of which is its name, and its input. It
// gives the output of the program.
type handler func(c *checker, args []string, in *string) string

var handlers map[string]handler

func init() { // they call each other
	handlers = map[string]handler{
		"eval": eval, "trap": trap, "pushd": cd, "cd": cd, "set": set, "alias": alias, "shift": shift, "fc": fc,
		"echo": echo, "printf": printf, "cat": cat, "tee": tee, "xargs": xargs, "parallel": xargs, "git": git, "sed": sed,
		"mktemp": prints("./tmp." + hole), "pwd": prints("."), "ls": prints("./" + hole), "batch": shellProgram,
		"at": func(c *checker, args []string, in *string) string { return shellProgram(c, args[:1], in) },
	}
	for name, w := range wrappers {
		handlers[name] = w.follow
	}
	for name, i := range interpreters {
		handlers[name] = i.follow
	}
	for names, h := range map[string]handler{
		"source .": source, "find fd fdfind": find, "make gmake": makefile, "curl wget": download,
		"read mapfile readarray": read, "export declare": exports, "command type which": lookup,
		"sort uniq head tail grep egrep fgrep rg": filter,
		shells: shellProgram,
		"[ test hash ag ack man gh glab jq help apropos whatis touch logger wall notify-send mail " +
			"dpkg apt apt-get apt-cache pip": prints(hole),
		// Their output is made for eval and source.
		"ssh-agent direnv brew pyenv rbenv nodenv starship zoxide dircolors opam minikube conda lesspipe " +
			"fnm mise luarocks": prints(""),
	} {
		for name := range strings.FieldsSeq(names) {
			handlers[name] = h
		}
	}
}

const shells = "sh bash dash zsh ksh ash mksh rbash fish yash csh tcsh"

func prints(out string) handler { return func(*checker, []string, *string) string { return out } }

// simple follows a simple command.
func (c *checker) simple(x *syntax.CallExpr, in *string) string {
	args := c.fields(x.Args...)
	if len(args) == 0 {
		c.set(x.Assigns...)
		return ""
	}
	if before := c.sh.vars; len(x.Assigns) > 0 {
		c.sh.vars = c.copied()
		defer func() { c.sh.vars = before }()
		c.set(x.Assigns...)
	}
	if alias, ok := c.sh.aliases[x.Args[0].Lit()]; ok && c.calls < maxCalls {
		c.calls++
		defer func() { c.calls-- }()
		return c.script(alias+" "+quoted(args[1:]), in)
	}
	return c.call(args, in)
}

// call follows a simple command, whose words are plain.
func (c *checker) call(args []string, in *string) string {
	defer c.deeper()()
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
	if len(args) > 1 && (args[1] == "--help" || args[1] == "--version") {
		return hole
	}
	c.harm(name, args)
	if h := handlers[name]; h != nil {
		return h(c, args, in)
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
	base := strings.TrimRight(name, "0123456789.-")
	if _, ok := interpreters[base]; ok {
		return base, true
	}
	return name, name != ""
}

// matchesAny tells whether a glob may be the name of a program that is known here.
func matchesAny(glob string) bool {
	names := slices.Collect(maps.Keys(handlers))
	for _, h := range harmful {
		names = append(names, strings.Fields(h.names)...)
	}
	for _, e := range effects {
		names = append(names, strings.Fields(e.names)...)
	}
	return among(glob, names)
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
			case isIn(shells, name) && len(rest) == 0:
				return c.call(args[i+1:], in)
			case slices.Contains(verbs, name) && len(rest) > 0, isIn(shells, name), isIn("run exec", args[1]):
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

// apart follows a text in a subshell.
func (c *checker) apart(text string, in *string) string {
	return c.subshell(func() string { return c.script(text, in) })
}

// content is the text of a file, or of the input, if the text says what is in it.
func (c *checker) content(name string, in *string) (string, bool) {
	if in != nil && isIn("/dev/stdin /dev/fd/0 -", name) {
		return *in, true
	}
	text, ok := c.files[c.resolve(name)]
	return text, ok
}
