package danger

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// In words these stand for what a text does not say.
const (
	hole = "\x01" // any text, or none
	me   = "\x02" // the name of the user's home folder
)

// env is the checker as the expander of words sees it.
type env struct{ c *checker }

// Each is for ${!prefix*}, whose names are not known.
func (e env) Each(func(string, expand.Variable) bool) {}

// Set is for ${x:=value}.
func (e env) Set(name string, v expand.Variable) error {
	e.c.sh.vars[name] = v
	return nil
}

// fixed are variables that each shell has, and those that name a program by convention.
var fixed = map[string]string{"IFS": " \t\n", "HOME": "/home/" + me, "PWD": ".", "PATH": "/usr/bin:/bin",
	"SHELL": "/bin/bash", "BASH": "/bin/bash", "AR": "ar", "BROWSER": "browser", "CARGO": "cargo", "CC": "cc",
	"CXX": "c++", "EDITOR": "vi", "GO": "go", "JAVA": "java", "LD": "ld", "MAKE": "make", "NODE": "node",
	"NPM": "npm", "PAGER": "less", "PIP": "pip", "PYTHON": "python", "PYTHON3": "python3", "RUBY": "ruby",
	"VISUAL": "vi"}

// Get gives a variable as far as the text says what it is.
func (e env) Get(name string) expand.Variable {
	sh := e.c.sh
	if v, ok := sh.vars[name]; ok && !(e.c.whole && name == "IFS") {
		return v
	}
	n, err := strconv.Atoi(name)
	switch user, of := strings.CutPrefix(name, "HOME "); {
	case of:
		return text("/home/" + user)
	case name == "IFS" && e.c.whole:
		return text("")
	case name == "0":
		return text(sh.zero)
	case err == nil && n > 0 && n <= len(sh.args):
		return text(sh.args[n-1])
	case (name == "@" || name == "*") && sh.args != nil:
		return expand.Variable{Set: true, Kind: expand.Indexed, List: sh.args}
	case fixed[name] != "":
		return text(fixed[name])
	case e.c.defaults[name], err == nil && n > 0 && sh.args != nil:
		return expand.Variable{}
	}
	return text(hole)
}

func (c *checker) config() *expand.Config {
	return &expand.Config{Env: env{c},
		CmdSubst: func(w io.Writer, s *syntax.CmdSubst) error {
			_, err := io.WriteString(w, c.outputs[s])
			return err
		},
		ProcSubst: func(s *syntax.ProcSubst) (string, error) { return c.outputs[s], nil },
	}
}

// inside follows a substitution, and gives its output.
func (c *checker) inside(stmts []*syntax.Stmt, in *string) string {
	if len(stmts) == 1 && stmts[0].Cmd == nil && len(stmts[0].Redirs) > 0 && in == nil {
		unknown := hole
		in = &unknown // $(< file)
	}
	defaults, whole := c.defaults, c.whole
	defer func() { c.defaults, c.whole = defaults, whole }()
	c.whole = false
	return c.subshell(func() string { return c.stmts(stmts, in) })
}

// fields expands words.
func (c *checker) fields(words ...*syntax.Word) (list []string) {
	for _, w := range words {
		c.spend(1)
		if c.prepare(w) {
			list = append(list, hole)
		} else {
			for field, err := range expand.FieldsSeq(c.config(), w) {
				c.spend(1 + len(field)/64)
				if err != nil {
					field = hole
				}
				if field == "" && strings.Contains(w.Lit(), "{") {
					continue // {sudo,}
				}
				if list = append(list, bounded(field)); len(list) > maxWords {
					panic(limit("it has too many words"))
				}
			}
		}
	}
	return list
}

// value expands a word that is not split. (expand.Literal keeps the backslash of \'.)
func (c *checker) value(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	before := c.whole
	c.whole = true
	list := c.fields(w)
	c.whole = before
	return bounded(strings.Join(list, " "))
}

// document expands a here-document, unless its delimiter is quoted.
func (c *checker) document(r *syntax.Redirect) string {
	text := r.Hdoc.Lit()
	if end := r.Word.Lit(); text != "" && (end == "" || strings.Contains(end, `\`)) {
		return bounded(text)
	}
	if c.prepare(r.Hdoc) {
		return hole
	}
	text, err := expand.Document(c.config(), r.Hdoc)
	if err != nil {
		return hole
	}
	return bounded(text)
}

// Bounds of one word: {a,b}{a,b} doubles with each, $x$x grows by what x is.
const (
	maxBraces   = 10
	maxParams   = 100
	maxReplaced = 1000 // bytes: each may be replaced by a long text
)

// prepare follows the substitutions in a part of the text, and notes the variables that have
// defaults. It tells whether a word cuts parts out of a text that is not known, or multiplies one.
func (c *checker) prepare(part syntax.Node) (unreadable bool) {
	c.defaults = map[string]bool{}
	braces, params := 0, 0
	syntax.Walk(part, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			if braces += strings.Count(n.Value, "{"); braces > maxBraces {
				panic(limit("it has too many words"))
			}
		case *syntax.CmdSubst:
			c.outputs[n] = strings.TrimRight(c.inside(n.Stmts, nil), "\n")
			return false
		case *syntax.ProcSubst:
			var in *string
			if unknown := hole; n.Op == syntax.CmdOut {
				in = &unknown
			}
			out := c.inside(n.Stmts, in)
			c.outputs[n] = fmt.Sprintf("/dev/fd/%d", 63+len(c.files))
			c.files[c.outputs[n]] = out
			return false
		case *syntax.ParamExp:
			if params++; n.Param == nil || params > maxParams {
				unreadable = true
				return false
			}
			value := env{c}.Get(n.Param.Value).String()
			switch {
			case n.Exp != nil && isIn(":+ + :- - := =", n.Exp.Op.String()):
				c.defaults[n.Param.Value] = true
			case n.Exp != nil || n.Slice != nil || n.Repl != nil || n.Excl || n.Index != nil:
				unreadable = unreadable || strings.Contains(value, hole) || n.Repl != nil && len(value) > maxReplaced
			}
		}
		return true
	})
	return unreadable
}

// set does assignments.
func (c *checker) set(list ...*syntax.Assign) {
	for _, a := range list {
		switch {
		case a.Name == nil:
			c.fields(a.Value)
		case a.Array != nil:
			var list []string
			if a.Append {
				list = slices.Clone(c.sh.vars[a.Name.Value].List)
			}
			for _, elem := range a.Array.Elems {
				if elem.Index != nil {
					c.prepare(elem.Index)
				}
				if elem.Value != nil {
					list = append(list, c.fields(elem.Value)...)
				}
			}
			list = list[:min(len(list), maxWords)]
			c.sh.vars[a.Name.Value] = expand.Variable{Set: true, Kind: expand.Indexed, List: list}
		case a.Index != nil:
			c.prepare(a)
			c.sh.vars[a.Name.Value] = text(hole)
		case !a.Naked:
			value := c.value(a.Value)
			if a.Append {
				value = c.sh.vars[a.Name.Value].String() + value
			}
			c.assign(a.Name.Value, value)
		}
	}
}

// assign sets a variable, and looks at those whose value programs run.
func (c *checker) assign(name, value string) {
	c.sh.vars[name] = text(value)
	body, isFunc := strings.CutPrefix(name, "BASH_FUNC_")
	switch {
	case value == "", value == hole:
	case name == "BASH_ENV", name == "ENV" && strings.Contains(value, "/"),
		strings.Contains(" LD_PRELOAD LD_AUDIT PYTHONSTARTUP PERL5OPT RUBYOPT ", " "+name+" "),
		name == "NODE_OPTIONS" && loads.MatchString(value):
		c.unsure("cannot tell what runs: %s=%s", name, value)
	case commands.MatchString(name):
		c.apart(strings.TrimPrefix(value, "|"), nil)
	case strings.HasPrefix(name, "PS") && len(name) == 3:
		c.apart("cat <<PROMPT\n"+value+"\nPROMPT\n", nil)
	case isFunc:
		c.script(strings.TrimSuffix(body, "%%")+" "+value, nil)
	}
}

// commands are variables whose value is a command, and loads what has node load a program.
var (
	commands = regexp.MustCompile(`(?:EDITOR|PAGER|_COMMAND|_ASKPASS|BROWSER|_RSH|_SSH)$|` +
		`^(?:VISUAL|LESSOPEN|LESSCLOSE|FCEDIT|GIT_EXTERNAL_DIFF)$`)
	loads = regexp.MustCompile(`-r|--import|loader`)
)

// text is a variable that is set.
func text(value string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: bounded(value)}
}

// bounded is a text that does not grow without end.
func bounded(s string) string {
	if len(s) > maxText {
		return hole
	}
	return s
}

// quoted is words as a shell reads them.
func quoted(words []string) (text string) {
	for _, w := range words {
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil { // it has a NUL byte
			q = hole
		}
		text += q + " "
	}
	return text
}
