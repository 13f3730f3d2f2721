package danger

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// handler looks at one program with its arguments, and gives what it may print.
type handler func(c *checker, args []string, in input) []string

// unknown is what is printed by what nobody here knows.
var unknown = []string{string(anyMade)}

// handlers has the programs that are known, by name. It is made of the tables of the files beside this one.
var (
	handlers map[string]handler
	names    []string // sorted
)

func init() {
	handlers = map[string]handler{}
	for name, h := range builtins {
		handlers[name] = h
	}
	for name, w := range wrappers {
		handlers[name] = w.look
	}
	for name := range shells {
		handlers[name] = shell
	}
	for name, i := range interpreters {
		handlers[name] = i.look
	}
	for name, rule := range harmful {
		handlers[name] = rule.look
	}
	names = slices.Sorted(maps.Keys(handlers))
}

// command looks at one simple command, as words.
func (c *checker) command(list []string, in input) (out []string) {
	c.spend(2 + len(list)/8)
	if len(list) == 0 {
		return []string{""}
	}
	c.deeper(func() { out = c.named(list, in) })
	return out
}

func (c *checker) named(list []string, in input) []string {
	name := list[0]
	base := path.Base(name)
	if name == "" || strings.HasSuffix(name, "/") {
		base = ""
	}
	c.render(list, base)
	if text, ok := c.aliases[name]; ok && !slices.Contains(c.active, name) {
		c.active = append(c.active, name)
		defer func() { c.active = c.active[:len(c.active)-1] }()
		return c.shell(text+" "+quote(list[1:]), in)
	}
	if _, ok := c.funcs[name]; ok {
		return c.function(name, list[1:], in)
	}
	if texts, ok := c.file(name); ok && strings.Contains(name, "/") {
		return c.texts(texts, list[1:], in, "a file of this command that is run")
	}
	if !strings.ContainsAny(base, wild) {
		return c.run(base, list, in)
	}
	return c.guess(base, list, in)
}

// run gives a command to those who know its program.
func (c *checker) run(base string, list []string, in input) []string {
	if h := handlers[programName(base)]; h != nil {
		return h(c, append([]string{programName(base)}, list[1:]...), in)
	}
	return unknown
}

// programName is a program's name without its version or kind: python3.11, mkfs.ext4.
func programName(base string) string {
	if _, ok := handlers[base]; ok {
		return base
	}
	if kind, _, ok := strings.Cut(base, "."); ok && kind == "mkfs" {
		return kind
	}
	return strings.TrimRight(base, "0123456789.")
}

// guess looks at a command whose program's name is not known, or not all of it.
func (c *checker) guess(base string, list []string, in input) []string {
	if !opaque(base) {
		loose := strings.Trim(base, wild) == ""
		if loose && len(list) == 1 && !strings.HasPrefix(list[0], "/") {
			return unknown // tests/*
		}
		for _, name := range names {
			if matches(base, name) && (!loose || harmful[name].what != nil || shells[name]) {
				c.quietly(func() { c.run(name, list, in) })
			}
		}
		return unknown
	}
	if strings.Contains(base, string(anyMade)) {
		c.found("a program whose name is not known before it runs: %s", strings.Join(list, " "))
	}
	if len(list) == 1 {
		return unknown
	}
	if strings.Trim(list[0], unknowns) == "" {
		c.command(list[1:], in) // it may be empty
	}
	for _, name := range names {
		if why := harmful[name].any; why != nil {
			if w := why(c, append([]string{name}, list[1:]...)); w != "" {
				c.harms("%s, if the program is %s: %s", w, name, strings.Join(list, " "))
			}
		}
	}
	c.quietly(func() {
		if slices.ContainsFunc(list[1:], func(a string) bool { return codeOption(known(a)) }) {
			shell(c, append([]string{"sh"}, list[1:]...), input{})
		}
	})
	return unknown
}

// render gives a command to the patterns as plain words, by its program's name and by its path.
func (c *checker) render(list []string, base string) {
	if c.muted {
		return
	}
	rest := veiled.Replace(strings.Join(append([]string{""}, list[1:]...), " "))
	c.spend(len(rest) / 64)
	c.rules.match(c.verdict, known(list[0])+rest)
	if c.rules.own && base != list[0] {
		c.rules.match(c.verdict, known(base)+rest)
	}
}

// veiled puts what no pattern is likely to mean in place of what isn't known.
var veiled = strings.NewReplacer(string(anyEnv), "…", string(anyMade), "…", string(anyText), "*", string(anyByte), "?")

// quote makes words into text that a shell reads as those words.
func quote(list []string) string {
	var b strings.Builder
	for i, w := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString("'" + strings.ReplaceAll(w, "'", `'\''`) + "'")
	}
	return b.String()
}

// texts looks at what a shell reads as its program.
func (c *checker) texts(values, args []string, in input, what string) (out []string) {
	for _, v := range values {
		if strings.ContainsAny(v, unknowns) && (opaque(strings.TrimSpace(v)) || lineUnknown(v)) {
			c.found("a shell runs text that is not known before: %s", what)
			if opaque(strings.TrimSpace(v)) {
				out = add(out, string(anyMade))
				continue
			}
		}
		out = add(out, c.with(args, func() []string { return c.shell(v, in) })...)
	}
	return out
}

// lineUnknown tells whether a line of a program begins with what isn't known.
func lineUnknown(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && (line[0] == anyMade || line[0] == anyEnv) {
			return true
		}
	}
	return false
}
