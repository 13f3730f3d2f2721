package danger

import (
	"maps"
	"path"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// checker follows a text. Each statement is visited, whatever condition it stands under.
type checker struct {
	rules    *Rules
	v        *Verdict
	sh       shell
	files    map[string]string // what the text writes, by path
	uncalled map[string]*syntax.Stmt
	seen     map[*syntax.CmdSubst]bool // those that were expanded
	defaults map[string]bool           // variables with a default, in the word that is expanded
	whole    bool                      // words are not split
	steps    int
	depth    int
	calls    int
	reader   string // what reads the terminal after the last command: "sh", an interpreter
	muted    bool   // only harm counts
	silent   bool   // nothing counts
}

// shell is what a subshell has a copy of.
type shell struct {
	vars    map[string]expand.Variable
	funcs   map[string]*syntax.Stmt
	aliases map[string]string
	cwd     string   // "": not known
	zero    string   // $0
	args    []string // $1 and so on; nil: not known
}

// maxCalls is how deep functions and aliases may call each other: they may have no end.
const maxCalls = 8

func newChecker(r *Rules, v *Verdict, at Place) *checker {
	return &checker{
		rules: r, v: v, files: map[string]string{}, uncalled: map[string]*syntax.Stmt{},
		seen: map[*syntax.CmdSubst]bool{},
		sh: shell{map[string]expand.Variable{}, map[string]*syntax.Stmt{}, map[string]string{}, at.Cwd,
			"bash", nil},
	}
}

// limit ends a walk that became too large.
type limit string

func (c *checker) spend() {
	if c.steps++; c.steps > maxSteps {
		panic(limit("it takes too many steps"))
	}
}

// guard ends a walk. A fault of the parser or of this package needs confirmation too.
func (c *checker) guard() {
	c.silent, c.muted = false, false
	if why := recover(); why != nil {
		text, ok := why.(limit)
		if !ok {
			text = "a fault of the checker"
		}
		c.unsure("cannot be checked: %s", string(text))
	}
}

// harms reports what does harm by the built-in rules.
func (c *checker) harms(format string, args ...any) {
	if !c.silent && len(c.rules.patterns) == 0 {
		c.v.add(true, format, args...)
	}
}

// unsure reports what can't be known.
func (c *checker) unsure(format string, args ...any) {
	if !c.silent && !c.muted {
		c.v.add(false, format, args...)
	}
}

// quietly looks only for harm.
func (c *checker) quietly(f func()) {
	before := c.muted
	c.muted = true
	f()
	c.muted = before
}

// subshell does something that changes no state of this shell.
func (c *checker) subshell(f func() string) string {
	before := c.sh
	c.sh.vars, c.sh.funcs = maps.Clone(before.vars), maps.Clone(before.funcs)
	c.sh.aliases = maps.Clone(before.aliases)
	out := f()
	c.sh = before
	return out
}

// script follows a text, and gives what it prints.
func (c *checker) script(text string, in *string) string {
	if c.depth++; c.depth > maxDepth || len(text) > MaxCommand || nested(text) {
		panic(limit("it is nested too deep, or too long"))
	}
	defer func() { c.depth-- }()
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		c.unsure("cannot be parsed: %v", err)
		return hole
	}
	return c.stmts(file.Stmts, in)
}

// apart is script in a subshell.
func (c *checker) apart(text string, in *string) string {
	return c.subshell(func() string { return c.script(text, in) })
}

// nested tells whether brackets are nested so deep that a parser would need much memory.
func nested(text string) bool {
	depth := 0
	for _, b := range []byte(text) {
		if strings.IndexByte("({`[", b) >= 0 {
			depth++
		} else if strings.IndexByte(")}]", b) >= 0 {
			depth = max(0, depth-1)
		}
		if depth > 4*maxDepth {
			return true
		}
	}
	return false
}

func (c *checker) stmts(list []*syntax.Stmt, in *string) (out string) {
	for _, s := range list {
		out = bounded(out + c.stmt(s, in))
	}
	return out
}

func (c *checker) stmt(s *syntax.Stmt, in *string) (out string) {
	c.spend()
	if c.depth++; c.depth > maxDepth {
		panic(limit("it is nested too deep"))
	}
	defer func() { c.depth-- }()
	var targets []string
	for _, r := range s.Redirs {
		var written []string
		if in, written = c.redirect(r, in); r.N == nil || r.N.Value == "1" {
			targets = append(targets, written...)
		}
	}
	if s.Cmd != nil {
		out = c.command(s.Cmd, in)
	} else if in != nil && len(s.Redirs) > 0 {
		out = *in // $(< file)
	}
	for _, t := range targets {
		c.files[c.resolve(t)], out = out, ""
	}
	return out
}

// redirect gives the input of a command, and what it writes to.
func (c *checker) redirect(r *syntax.Redirect, in *string) (*string, []string) {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		text := hole
		if !c.unreadable(r.Hdoc) {
			if known, err := expand.Document(c.config(), r.Hdoc); err == nil {
				text = bounded(known)
			}
		}
		c.leftovers(r.Hdoc)
		return &text, nil
	case syntax.WordHdoc:
		text := c.value(r.Word) + "\n"
		return &text, nil
	}
	targets := c.fields(r.Word)
	for _, t := range targets {
		switch r.Op {
		case syntax.RdrIn:
			if text, ok := c.files[c.resolve(t)]; ok {
				in = &text
			}
			return in, nil
		case syntax.DplIn, syntax.DplOut:
			return in, nil
		}
		c.written(t, ">", r.Op == syntax.AppOut || r.Op == syntax.AppAll)
	}
	return in, targets
}

func (c *checker) command(cmd syntax.Command, in *string) (out string) {
	switch x := cmd.(type) {
	case *syntax.CallExpr:
		return c.simple(x, in)
	case *syntax.BinaryCmd:
		left := c.stmt(x.X, in)
		if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
			return c.stmt(x.Y, &left)
		}
		return bounded(left + c.stmt(x.Y, in))
	case *syntax.Subshell:
		return c.subshell(func() string { return c.stmts(x.Stmts, in) })
	case *syntax.Block:
		return c.stmts(x.Stmts, in)
	case *syntax.IfClause:
		if out = c.stmts(x.Cond, in) + c.stmts(x.Then, in); x.Else != nil {
			out += c.command(x.Else, in)
		}
		return bounded(out)
	case *syntax.WhileClause:
		return bounded(c.stmts(x.Cond, in) + c.stmts(x.Do, in))
	case *syntax.ForClause:
		return c.loop(x, in)
	case *syntax.CaseClause:
		c.leftovers(x.Word)
		for _, item := range x.Items {
			out = bounded(out + c.stmts(item.Stmts, in))
		}
		return out
	case *syntax.FuncDecl:
		c.declare(x)
	case *syntax.DeclClause:
		c.set(x.Args...)
	case *syntax.TimeClause:
		if x.Stmt != nil {
			return c.stmt(x.Stmt, in)
		}
	case *syntax.CoprocClause:
		return c.stmt(x.Stmt, in)
	default:
		c.leftovers(cmd)
	}
	return ""
}

// loop follows the body of a loop for each of its items.
func (c *checker) loop(x *syntax.ForClause, in *string) (out string) {
	items, ok := x.Loop.(*syntax.WordIter)
	if !ok {
		c.leftovers(x.Loop)
		return c.stmts(x.Do, in)
	}
	list := c.fields(items.Items...)
	if !items.InPos.IsValid() {
		if list = c.sh.args; list == nil {
			list = []string{hole}
		}
	}
	for _, item := range list {
		c.sh.vars[items.Name.Value] = text(item)
		out = bounded(out + c.stmts(x.Do, in))
	}
	return out
}

// declare notes a function. One that starts itself twice fills the host with processes.
func (c *checker) declare(x *syntax.FuncDecl) {
	name, calls := x.Name.Value, 0
	c.sh.funcs[name], c.uncalled[name] = x.Body, x.Body
	syntax.Walk(x.Body, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if ok && len(call.Args) > 0 && call.Args[0].Lit() == name {
			calls++
		}
		_, inner := n.(*syntax.CmdSubst)
		return !inner
	})
	if calls > 1 {
		c.harms("starts processes without end: %s", name)
	}
}

// simple follows a simple command.
func (c *checker) simple(x *syntax.CallExpr, in *string) string {
	args := c.fields(x.Args...)
	if len(args) == 0 {
		c.set(x.Assigns...)
		return ""
	}
	if before := c.sh.vars; len(x.Assigns) > 0 {
		c.sh.vars = maps.Clone(before)
		defer func() { c.sh.vars = before }()
		c.set(x.Assigns...)
	}
	if alias, ok := c.sh.aliases[x.Args[0].Lit()]; ok && c.calls < maxCalls {
		c.calls++
		defer func() { c.calls-- }()
		return c.script(alias+" "+quoted(args[1:]), in)
	}
	if args[0] == hole && conventional(x.Args[0]) {
		c.trailing(args, in)
		return hole
	}
	return c.call(args, in)
}

// conventional tells whether a word is a variable that names a program by convention.
func conventional(w *syntax.Word) bool {
	parts := w.Parts
	if q, ok := parts[0].(*syntax.DblQuoted); ok {
		parts = q.Parts
	}
	if len(parts) != 1 {
		return false
	}
	p, ok := parts[0].(*syntax.ParamExp)
	return ok && p.Exp == nil && p.Param != nil && strings.Contains(" AR BROWSER CARGO CC CXX EDITOR GO JAVA LD "+
		"MAKE NODE NPM PAGER PIP PYTHON PYTHON3 RUBY VISUAL ", " "+p.Param.Value+" ")
}

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
		text += "'" + strings.ReplaceAll(w, "'", `'\''`) + "' "
	}
	return text
}

// resolve is a path as the shell sees it.
func (c *checker) resolve(p string) string {
	if !path.IsAbs(p) && c.sh.cwd != "" {
		p = c.sh.cwd + "/" + p
	}
	return path.Clean(p)
}
