package danger

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// Placeholders in the text of expanded words.
const (
	unknown = "\x01" // any text, possibly empty
	user    = "\x02" // the name of the user's home directory
)

// defaults contains variables that every shell sets, and variables that name a program by
// convention.
var defaults = map[string]string{"IFS": " \t\n", "HOME": "/home/" + user, "PWD": ".",
	"PATH": "/usr/bin:/bin", "SHELL": "/bin/bash", "BASH": "/bin/bash", "AR": "ar",
	"BROWSER": "browser", "CARGO": "cargo", "CC": "cc", "CXX": "c++", "EDITOR": "vi", "GO": "go",
	"JAVA": "java", "LD": "ld", "MAKE": "make", "NODE": "node", "NPM": "npm", "PAGER": "less",
	"PIP": "pip", "PYTHON": "python", "PYTHON3": "python3", "RUBY": "ruby", "VISUAL": "vi"}

// expansion is the environment that the expansion of a word uses.
type expansion struct {
	c     *checker
	whole bool            // true if the word is not split into fields
	unset map[string]bool // unknown variables for which the word contains a default value
}

// Each implements expand.Environ for ${!prefix*}. It yields no names, because they are unknown.
func (e expansion) Each(func(string, expand.Variable) bool) {}

// Get implements expand.Environ.
func (e expansion) Get(name string) expand.Variable {
	value, ok := e.c.sh.vars[name]
	args := e.c.sh.args
	n, err := strconv.Atoi(name)
	switch {
	case name == "IFS" && e.whole:
		value = ""
	case ok:
	case defaults[name] != "":
		value = defaults[name]
	case args != nil && (name == "@" || name == "*"):
		return expand.Variable{Set: true, Kind: expand.Indexed, List: args}
	case err == nil && n > 0 && n <= len(args):
		value = args[n-1]
	case e.unset[name], err == nil && n > 0 && args != nil:
		return expand.Variable{}
	default:
		value = unknown
	}
	return expand.Variable{Set: true, Kind: expand.String, Str: value}
}

// Limits on one word: $x$x doubles the size of x, and {a,b}{a,b} doubles the number of words.
const (
	maxParams = 100
	maxBraces = 10
)

// config prepares the expansion of a word. ok is false if the word has operators that cut or change
// a value, or exceeds the limits.
func (c *checker) config(word syntax.Node, whole bool) (config *expand.Config, ok bool) {
	e := expansion{c, whole, map[string]bool{}}
	ok = true
	params, braces := 0, 0
	syntax.Walk(word, func(n syntax.Node) bool {
		if lit, isLit := n.(*syntax.Lit); isLit {
			braces += strings.Count(lit.Value, "{")
			ok = ok && braces <= maxBraces
		}
		if p, isParam := n.(*syntax.ParamExp); isParam {
			params++
			plain := p.Param != nil && !p.Excl && !p.Length && p.Slice == nil && p.Repl == nil &&
				p.Index == nil && params < maxParams
			if plain && p.Exp != nil {
				plain = isIn(":+ + :- - := = :? ?", p.Exp.Op.String())
				e.unset[p.Param.Value] = !strings.HasSuffix(p.Exp.Op.String(), "?")
			}
			ok = ok && plain
		}
		_, isSubst := n.(*syntax.CmdSubst)
		return !isSubst
	})
	return &expand.Config{Env: e,
		CmdSubst: func(w io.Writer, s *syntax.CmdSubst) error {
			_, err := io.WriteString(w, c.output(s))
			return err
		},
		ProcSubst: func(s *syntax.ProcSubst) (string, error) { return c.pipe(s), nil },
	}, ok
}

// output checks a command substitution and returns its output.
func (c *checker) output(s *syntax.CmdSubst) string {
	c.subshell(func() { c.stmts(s.Stmts) })
	return strings.TrimRight(c.out, "\n")
}

// pipe checks a process substitution and returns the path of its pipe.
func (c *checker) pipe(s *syntax.ProcSubst) string {
	in := unknown
	c.subshell(func() {
		if s.Op == syntax.CmdOut {
			c.sh.in = &in
		}
		c.stmts(s.Stmts)
	})
	name := fmt.Sprintf("/dev/fd/%d", 63+len(c.files))
	c.files[name] = c.out
	return name
}

// fields expands words as bash does.
func (c *checker) fields(words ...*syntax.Word) []string { return c.expand(words, false) }

// value expands a word without splitting it into fields. It does not use expand.Literal, because
// that function keeps the backslash in \'.
func (c *checker) value(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	return bounded(strings.Join(c.expand([]*syntax.Word{w}, true), " "))
}

func (c *checker) expand(words []*syntax.Word, whole bool) (list []string) {
	for _, w := range words {
		c.countSteps(1)
		config, ok := c.config(w, whole)
		if !ok {
			c.inside(w)
			list = append(list, unknown)
			continue
		}
		for field, err := range expand.FieldsSeq(config, w) {
			c.countSteps(1 + len(field)/64)
			if err != nil {
				field = unknown
			}
			if list = append(list, bounded(field)); len(list) > maxWords {
				panic(limit("it has too many words"))
			}
		}
	}
	return list
}

// document returns the text of a here-document. It expands the text unless the delimiter is quoted.
func (c *checker) document(r *syntax.Redirect) string {
	if r.Hdoc == nil {
		return ""
	}
	text, end := r.Hdoc.Lit(), r.Word.Lit()
	if text != "" && (end == "" || strings.Contains(end, `\`)) {
		return bounded(text)
	}
	config, ok := c.config(r.Hdoc, true)
	if !ok {
		c.inside(r.Hdoc)
		return unknown
	}
	text, _ = expand.Document(config, r.Hdoc)
	return bounded(text)
}

// set simulates assignments.
func (c *checker) set(list []*syntax.Assign) {
	for _, a := range list {
		switch {
		case a.Name == nil: // an argument of export or declare
			for _, word := range c.fields(a.Value) {
				c.export(word)
			}
		case a.Array != nil || a.Index != nil:
			c.inside(a)
			c.sh.vars[a.Name.Value] = unknown
		case a.Append:
			c.assign(a.Name.Value, c.sh.vars[a.Name.Value]+c.value(a.Value))
		case !a.Naked:
			c.assign(a.Name.Value, c.value(a.Value))
		}
	}
}

// export simulates an assignment that is the argument of a command, such as export A=1.
func (c *checker) export(arg string) (ok bool) {
	name, value, ok := strings.Cut(arg, "=")
	if ok = ok && syntax.ValidName(name); ok {
		c.assign(name, value)
	}
	return ok
}

// Variables that affect which programs run.
var (
	scriptVars  = strings.Fields("BASH_ENV LD_PRELOAD LD_AUDIT PYTHONSTARTUP PERL5OPT RUBYOPT")
	commandVars = lazyregexp.New(
		`(?:EDITOR|PAGER|_COMMAND|_ASKPASS|BROWSER|_RSH|_SSH)$|` +
			`^(?:VISUAL|LESSOPEN|LESSCLOSE|FCEDIT|GIT_EXTERNAL_DIFF)$`)
)

// assign sets a variable. It checks the value if other programs run it as a command. If a variable
// gets two different values, its value becomes unknown, because conditions can guard the
// assignments.
func (c *checker) assign(name, value string) {
	value = bounded(value)
	before, isSet := c.sh.vars[name]
	if c.sh.vars[name] = value; isSet && before != value {
		c.sh.vars[name] = unknown
	}
	function, isFunction := strings.CutPrefix(name, "BASH_FUNC_")
	switch {
	case value == "", value == unknown:
	case slices.Contains(scriptVars, name), name == "ENV" && strings.Contains(value, "/"):
		c.unclear(name + "=" + value)
	case commandVars().MatchString(name):
		c.child(strings.TrimPrefix(value, "|"))
	case strings.HasPrefix(name, "PS") && len(name) == 3: // the shell expands its prompt
		c.child("cat <<PROMPT\n" + value + "\nPROMPT\n")
	case isFunction:
		c.script(strings.TrimSuffix(function, "%%") + " " + value)
	}
}

// bounded returns the text, or unknown if the text is too long.
func bounded(text string) string {
	if len(text) > maxText {
		return unknown
	}
	return text
}
