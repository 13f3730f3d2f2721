package danger

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtins are programs that run nothing else, of which it is known what they print or set.
var builtins = map[string]handler{
	"eval": eval, "source": source, ".": source, "trap": trapped, "cd": cd, "pushd": cd, "alias": alias, "set": set, "shift": shift, "read": read,
	"mapfile": mapfile, "readarray": mapfile, "printf": printf, "echo": echo, "cat": cat, "tac": cat, "which": which, "type": which, "tee": tee, "find": find,
	"true": nothing, "false": nothing, ":": nothing, "test": nothing, "[": nothing, "unset": nothing, "unalias": nothing, "hash": nothing, "shopt": nothing, "sleep": nothing, "wait": nothing,
	"pwd": prints("."), "mktemp": prints("./tmp." + string(anyMade)), "ls": listed, "git": git, "fd": listed, "rg": listed, "grep": listed, "date": prints("0" + string(anyMade)), "uname": prints("Linux"),
	"nproc": prints("2"), "whoami": prints("user"), "hostname": prints("host"), "ssh-agent": nothing, "direnv": nothing, "brew": nothing, "pyenv": nothing, "rbenv": nothing,
	"nodenv": nothing, "starship": nothing, "zoxide": nothing, "dircolors": nothing, "opam": nothing, "minikube": nothing, "conda": nothing, "lesspipe": nothing, "fnm": nothing, "mise": nothing,
	"export": assigns, "local": assigns, "declare": assigns, "readonly": assigns, "typeset": assigns, "complete": nothing, "bind": nothing,
}

func prints(text string) handler {
	return func(*checker, []string, input) []string { return []string{text} }
}

func nothing(*checker, []string, input) []string { return []string{""} }

func echo(_ *checker, args []string, _ input) []string {
	rest, escape, end := args[1:], false, "\n"
	for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' && strings.Trim(rest[0][1:], "neE") == "" {
		escape = escape || strings.Contains(rest[0], "e")
		if strings.Contains(rest[0], "n") {
			end = ""
		}
		rest = rest[1:]
	}
	text := strings.Join(rest, " ")
	if escape {
		return []string{escaped(text, true) + end}
	}
	if strings.Contains(text, `\`) { // dash's echo reads escapes without -e
		return []string{text + end, escaped(text, true) + end}
	}
	return []string{text + end}
}

func printf(c *checker, args []string, _ input) []string {
	rest := args[1:]
	into := ""
	if len(rest) > 1 && rest[0] == "-v" {
		into, rest = rest[1], rest[2:]
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return []string{""}
	}
	text := formatted(c, rest[0], rest[1:])
	if into != "" {
		if syntax.ValidName(into) {
			c.assign(into, text)
		}
		return []string{""}
	}
	return []string{text}
}

// formatted does what printf does, of which it knows %s, %b, %q, %c and %%.
func formatted(c *checker, format string, args []string) string {
	var b strings.Builder
	for format = escaped(format, true); ; {
		used := false
		for i := 0; i < len(format); i++ {
			c.spend(i % 8 / 7)
			if format[i] != '%' || i+1 == len(format) {
				b.WriteByte(format[i])
				continue
			}
			for i++; i < len(format)-1 && strings.IndexByte("-+ #0123456789.", format[i]) >= 0; i++ {
			}
			if format[i] == '%' {
				b.WriteByte('%')
				continue
			}
			used = true
			arg := ""
			if len(args) > 0 {
				arg, args = args[0], args[1:]
			}
			switch format[i] {
			case 's', 'q':
			case 'b':
				arg = escaped(arg, true)
			case 'c':
				arg = arg[:min(1, len(arg))]
			default:
				arg = string(anyMade)
			}
			b.WriteString(arg)
		}
		if !used || len(args) == 0 || b.Len() > maxText {
			return b.String()
		}
	}
}

// cat prints what comes to it, and what the text wrote to files.
func cat(c *checker, args []string, in input) []string {
	out := []string{""}
	list := operands(args)
	if len(list) == 0 {
		list = []string{"-"}
	}
	for _, name := range list {
		switch texts, ok := c.file(name); {
		case ok:
			out = c.concat(out, texts)
		case (name == "-" || name == "/dev/stdin") && in.piped:
			out = c.concat(out, in.values)
		default:
			out = c.concat(out, unknown)
		}
	}
	return out
}

func tee(c *checker, args []string, in input) []string {
	if !in.piped {
		in.values = unknown
	}
	for _, target := range operands(args) {
		c.written(target, "tee")
		c.write(target, in.values)
	}
	return in.values
}

// which prints the path of a program, of which the name counts here.
func which(_ *checker, args []string, _ input) []string {
	if list := operands(args); len(list) == 1 {
		return []string{list[0]}
	}
	return unknown
}

// listed is what lists files below the working folder, unless it is told of others.
func listed(_ *checker, args []string, in input) []string {
	for _, a := range args[1:] {
		if a != "" && strings.ContainsAny(a[:1], "/~.\x01\x02") {
			return unknown
		}
	}
	if in.piped && (args[0] == "grep" || args[0] == "rg") { // some of the lines that came
		if len(in.values) == 1 && strings.HasPrefix(in.values[0], "./") {
			return []string{"./" + string(anyMade)}
		}
		return unknown
	}
	return []string{"./" + string(anyMade)}
}

func git(_ *checker, args []string, _ input) []string {
	if len(args) > 1 && (args[1] == "ls-files" || args[1] == "diff" || args[1] == "status") {
		return []string{"./" + string(anyMade)}
	}
	return unknown
}

func alias(c *checker, args []string, _ input) []string {
	for _, a := range args[1:] {
		if name, text, ok := strings.Cut(a, "="); ok && len(c.aliases) < maxWords {
			c.aliases[name] = text
		}
	}
	return []string{""}
}

func set(c *checker, args []string, _ input) []string {
	for i, a := range args[1:] {
		if a == "--" {
			c.positional, c.argsKnown = args[i+2:], true
			break
		}
		if !strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "+") && (i == 0 || !strings.HasSuffix(args[i], "o")) {
			c.positional, c.argsKnown = args[i+1:], true
			break
		}
	}
	return []string{""}
}

func shift(c *checker, args []string, _ input) []string {
	n := 1
	if len(args) > 1 {
		n = len(args[1])
		if args[1] >= "0" && args[1] <= "9" {
			n = int(args[1][0] - '0')
		}
	}
	c.positional = c.positional[min(n, len(c.positional)):]
	return []string{""}
}

// read sets variables to what comes in: each to any of the words, the only one to any of the lines.
func read(c *checker, args []string, in input) []string {
	names := operands(args)
	for i, a := range args {
		if (a == "-p" || a == "-t" || a == "-n" || a == "-N" || a == "-d" || a == "-u" || a == "-i") && i+1 < len(args) && len(names) > 0 {
			names = without(names, args[i+1])
		}
	}
	if len(names) == 0 {
		names = []string{"REPLY"}
	}
	for _, name := range names {
		if !syntax.ValidName(name) {
			continue
		}
		if !in.piped {
			c.assign(name, string(anyMade))
		}
		for _, v := range in.values {
			lines := strings.Split(strings.TrimRight(v, "\n"), "\n")
			for _, line := range lines {
				c.spend(1)
				c.assign(name, strings.TrimSpace(line))
				if len(names) > 1 {
					c.assign(name, strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(c.ifs, r) })...)
				}
			}
		}
	}
	return []string{""}
}

func without(list []string, item string) (rest []string) {
	for _, x := range list {
		if x != item {
			rest = append(rest, x)
		}
	}
	return rest
}

func mapfile(c *checker, args []string, in input) []string {
	name := "MAPFILE"
	if list := operands(args); len(list) > 0 {
		name = list[len(list)-1]
	}
	if !syntax.ValidName(name) {
		return []string{""}
	}
	v := c.variable(name)
	if !in.piped {
		in.values = unknown
	}
	for _, text := range in.values {
		if lines := strings.Split(strings.TrimRight(text, "\n"), "\n"); len(v.lists) < maxValues && len(lines) < maxWords {
			v.lists = append(v.lists, lines)
		}
	}
	return []string{""}
}

// assigns is export, declare and the like where they are called by another name or through another program.
func assigns(c *checker, args []string, _ input) []string {
	for _, a := range args[1:] {
		if name, value, ok := strings.Cut(a, "="); ok && syntax.ValidName(name) {
			c.assign(name, value)
		}
	}
	return []string{""}
}
