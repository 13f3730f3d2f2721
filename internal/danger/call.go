package danger

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Names of programs, by kind.
var (
	shells = strings.Fields("sh bash dash zsh ksh ash mksh rbash fish yash csh tcsh")
	// If the program is unknown, embedded looks for destroyers among its arguments.
	destroyers = strings.Fields("rm dd shred mkfs chmod chown wipefs rimraf")
	// The arguments of these programs are data, not commands.
	dataPrograms = strings.Fields("[ test hash grep egrep fgrep rg ag ack man gh glab jq sort uniq sed " +
		"head tail tee help apropos whatis touch logger wall notify-send mail dpkg apt apt-get " +
		"apt-cache pip")
	// The output of these programs is intended for eval and source.
	trusted = strings.Fields("ssh-agent direnv brew pyenv rbenv nodenv starship zoxide dircolors " +
		"opam minikube conda lesspipe fnm mise luarocks")
	// The output of these programs is a relative path.
	outputs = map[string]string{"mktemp": "./tmp." + unknown, "pwd": "."}
)

// simple checks a simple command, including its assignments.
func (c *checker) simple(x *syntax.CallExpr) {
	args := c.fields(x.Args...)
	switch {
	case len(args) == 0:
		c.set(x.Assigns)
	case len(x.Assigns) > 0: // these assignments apply only to this command
		c.subshell(func() {
			c.set(x.Assigns)
			c.call(args)
		})
	default:
		c.call(args)
	}
}

// call checks a simple command whose words are already expanded.
func (c *checker) call(args []string) {
	defer c.enter()()
	c.reader, c.out = "", unknown
	name, ok := programOf(args[0])
	if !ok {
		c.unclear(strings.Join(args, " "))
		c.embedded(args)
		return
	}
	c.rules.match(c.v, strings.Join(args, " "))
	c.rules.match(c.v, strings.Join(append([]string{name}, args[1:]...), " "))
	if body, ok := c.sh.funcs[args[0]]; ok {
		if c.sh.calls == maxCalls {
			c.harm("starts processes without end: %s", name)
			return
		}
		before, calls := c.sh.args, c.sh.calls
		c.sh.args, c.sh.calls = args[1:], calls+1
		c.stmt(body)
		c.sh.args, c.sh.calls = before, calls
		return
	}
	if text, ok := c.files[c.resolve(args[0])]; ok && strings.Contains(args[0], "/") {
		c.run(text, args[1:])
		return
	}
	if len(args) > 1 && isIn("--help --version", args[1]) {
		return
	}
	c.applyRules(name, args)
	switch h := handlers[name]; {
	case h != nil:
		h(c, args)
	case slices.Contains(wrappers, name):
		c.subshell(func() { c.wrapped(name, args[1:]) })
	case slices.Contains(shells, name):
		c.shell(args)
	case slices.Contains(interpreters, name):
		c.interpreter(name, args[1:])
	case outputs[name] != "":
		c.out = outputs[name]
	case slices.Contains(trusted, name), len(args) > 1 && args[1] == "completion":
		c.out = ""
	case !slices.Contains(dataPrograms, name):
		c.embedded(args)
	}
}

// programOf returns the name of a program without its directory and version. If the word does not
// show which program runs, ok is false.
func programOf(word string) (name string, ok bool) {
	dir, name := path.Split(word)
	// Programs inside the project are allowed to have any name.
	inProject := dir != "" && dir[0] != '/' && !strings.ContainsAny(dir, unknown+"*?[") &&
		!strings.Contains(dir, "..")
	glob := strings.ContainsAny(name, "*?[") && matchesAny(name, programs())
	if !inProject && (strings.Contains(name, unknown) || glob) {
		return "", false
	}
	base := strings.TrimRight(name, "0123456789.-")
	if slices.Contains(interpreters, base) {
		return base, true
	}
	return name, word != ""
}

// embedded checks the commands among the arguments of an unknown program. It looks for commands in
// these places:
//
//   - After "--".
//   - After the first argument, if the first argument is "run", "exec" or "dlx".
//   - In an argument with blanks.
//   - From the name of a shell or a destroyer to the last argument.
func (c *checker) embedded(args []string) {
	before := c.sh
	c.sh.vars, c.sh.cwd = maps.Clone(before.vars), ""
	defer func() { c.sh = before }()
	for i, a := range args[1:] {
		name, _ := programOf(a)
		isShell := slices.Contains(shells, name)
		runs := isIn("run exec dlx", args[1]) && args[0] != "npm"
		switch rest := args[i+2:]; {
		case a == "--" && len(rest) > 0 && !strings.Contains(rest[0], unknown):
			c.call(rest)
			return
		case isShell && len(rest) == 0:
			c.call(args[i+1:])
			return
		case slices.Contains(destroyers, name) && len(rest) > 0, isShell, runs:
			c.onlyHarmful(func() { c.call(args[i+1:]) })
		case strings.Contains(a, " "):
			c.onlyHarmful(func() { c.option(a) })
		}
	}
}

// option checks the commands that an argument can contain. These are the whole argument, the value
// of a setting such as ProxyCommand=…, and the text after "!".
func (c *checker) option(text string) {
	name, value, isSetting := strings.Cut(text, "=")
	_, escaped, _ := strings.Cut(text, "!")
	if isSetting && !strings.Contains(name, " ") {
		text = ""
	}
	for _, command := range []string{text, strings.TrimPrefix(value, "exec="), escaped} {
		c.child(command)
	}
}

// run checks a script with its arguments, as a new shell would run the script.
func (c *checker) run(script string, args []string) {
	c.subshell(func() {
		c.sh.args, c.sh.in = args, nil
		c.script(script)
	})
}

// content returns the content of a file, or of standard input. ok is false if the command text does
// not show the content.
func (c *checker) content(name string) (text string, ok bool) {
	if c.sh.in != nil && isIn("/dev/stdin /dev/fd/0 -", name) {
		return *c.sh.in, true
	}
	text, ok = c.files[c.resolve(name)]
	return text, ok
}
