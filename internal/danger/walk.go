package danger

import (
	"maps"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// checker simulates a command and reports the dangerous parts. It visits each statement, even if a
// condition guards the statement.
type checker struct {
	rules  *Rules
	v      *Verdict
	sh     shell
	out    string            // output of the last command, or unknown
	files  map[string]string // contents of the files that the command writes, by path
	steps  int
	depth  int
	reader string // the last program, if it reads from the terminal: "sh", an interpreter, or ""
}

// shell is the state that a subshell inherits as a copy.
type shell struct {
	vars  map[string]string
	funcs map[string]*syntax.Stmt
	cwd   string   // "" if it is unknown.
	args  []string // $1, $2 and so on, or nil if they are unknown.
	in    *string  // standard input, or nil for a terminal.
	calls int      // number of nested function calls.
}

func newChecker(r *Rules, v *Verdict, cwd string) *checker {
	return &checker{rules: r, v: v, files: map[string]string{},
		sh: shell{vars: map[string]string{}, funcs: map[string]*syntax.Stmt{}, cwd: cwd}}
}

// limit is the panic value that stops a check that needs too much work.
type limit string

// countSteps counts steps of work. Callers count one step per 64 bytes of a long text.
func (c *checker) countSteps(steps int) {
	if c.steps += steps; c.steps > maxSteps {
		panic(limit("it takes too many steps"))
	}
}

// enter counts one level of nesting, until the caller calls leave.
func (c *checker) enter() (leave func()) {
	c.countSteps(1)
	if c.depth++; c.depth > maxDepth {
		panic(limit("it is nested too deep"))
	}
	return func() { c.depth-- }
}

// attempt calls check and reports a panic in v. Otherwise a bug could let a command pass.
func attempt(v *Verdict, check func()) {
	defer func() {
		if why := recover(); why != nil {
			text, ok := why.(limit)
			if !ok {
				text = "an internal error of the check"
			}
			v.add(false, "cannot be checked: %s", string(text))
		}
	}()
	check()
}

// harm reports a broken rule. If the user has set patterns, harm reports nothing, because the
// patterns replace the rules.
func (c *checker) harm(format string, args ...any) {
	if len(c.rules.patterns) == 0 {
		c.v.add(true, format, args...)
	}
}

// unclear reports a command if the text does not show which program it runs.
func (c *checker) unclear(command string) { c.v.add(false, "cannot tell what runs: %s", command) }

// onlyHarmful calls f. It discards the matches of f, unless one of them is harmful.
func (c *checker) onlyHarmful(f func()) {
	before, found := c.v, &Verdict{}
	c.v = found
	defer func() {
		if c.v = before; found.Harmful {
			before.merge(*found)
		}
	}()
	f()
}

// subshell calls f and afterwards restores the state of the shell.
func (c *checker) subshell(f func()) {
	before := c.sh
	c.countSteps((len(before.vars) + len(before.funcs)) / 16)
	c.sh.vars, c.sh.funcs = maps.Clone(before.vars), maps.Clone(before.funcs)
	f()
	c.sh = before
}

// script checks a text as a script that this shell runs.
func (c *checker) script(text string) {
	defer c.enter()()
	if len(text) > MaxCommand || tooNested(text) {
		panic(limit("it is nested too deep, or too long"))
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		c.v.add(false, "cannot be parsed: %v", err)
		return
	}
	c.stmts(file.Stmts)
}

// child checks a text as a script that a new shell runs.
func (c *checker) child(text string) { c.subshell(func() { c.script(text) }) }

// tooNested reports whether brackets are nested so deeply that the parser would need a lot of
// memory.
func tooNested(text string) bool {
	depth := 0
	for _, b := range []byte(text) {
		switch b {
		case '(', '{', '`', '[':
			depth++
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
		if depth > 4*maxDepth {
			return true
		}
	}
	return false
}

func (c *checker) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		c.stmt(s)
	}
	if len(list) > 1 {
		c.out = unknown
	}
}

func (c *checker) stmt(s *syntax.Stmt) {
	defer c.enter()()
	in := c.sh.in
	var targets []string
	for _, r := range s.Redirs {
		targets = append(targets, c.redirect(r)...)
	}
	c.out = unknown
	if s.Cmd != nil {
		c.command(s.Cmd)
	} else if c.sh.in != nil && c.sh.in != in {
		c.out = *c.sh.in // $(< file)
	}
	c.sh.in = in
	c.countSteps(len(c.out) / 64)
	for _, t := range targets {
		c.files[c.resolve(t)], c.out = c.out, ""
	}
}

// redirect sets the input of the next command. For an output redirection, it returns the files that
// the output goes to.
func (c *checker) redirect(r *syntax.Redirect) (targets []string) {
	text := unknown
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		text = c.document(r)
	case syntax.WordHdoc:
		text = c.value(r.Word) + "\n"
	case syntax.RdrIn:
		known := false
		if text, known = c.files[c.resolve(c.value(r.Word))]; !known {
			c.sh.in = nil // scripts that exist before the command are not checked
			return nil
		}
	case syntax.DplIn, syntax.DplOut:
		c.value(r.Word)
	default:
		targets = c.fields(r.Word)
		for _, t := range targets {
			c.write(t, ">", r.Op == syntax.AppOut || r.Op == syntax.AppAll)
		}
	}
	if fd := r.N; fd != nil && !isIn("0 1", fd.Value) {
		return nil
	}
	if targets == nil && r.Op != syntax.DplOut {
		c.sh.in = &text
	}
	return targets
}

func (c *checker) command(cmd syntax.Command) {
	switch x := cmd.(type) {
	case *syntax.CallExpr:
		c.simple(x)
	case *syntax.DeclClause:
		c.set(x.Args)
	case *syntax.BinaryCmd:
		if x.Op != syntax.Pipe && x.Op != syntax.PipeAll {
			c.inside(x)
			return
		}
		c.subshell(func() { c.stmt(x.X) })
		in := c.out
		c.subshell(func() { c.sh.in = &in; c.stmt(x.Y) })
	case *syntax.Subshell:
		c.subshell(func() { c.stmts(x.Stmts) })
	case *syntax.FuncDecl:
		if x.Name == nil { // "() ls" has no name
			c.stmt(x.Body)
			return
		}
		c.sh.funcs[x.Name.Value] = x.Body
	default:
		c.inside(cmd)
		c.out = unknown
	}
}

// inside checks the statements and substitutions in a part of the syntax tree.
func (c *checker) inside(part syntax.Node) {
	syntax.Walk(part, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			c.stmt(n)
		case *syntax.CmdSubst:
			c.output(n)
		case *syntax.ProcSubst:
			c.pipe(n)
		case *syntax.WordIter:
			c.sh.vars[n.Name.Value] = unknown
			if items := c.fields(n.Items...); len(items) == 1 {
				c.sh.vars[n.Name.Value] = items[0]
			}
		default:
			return true
		}
		return false
	})
}

// resolve returns the cleaned path of a file. A relative path is joined to the working directory of
// the shell.
func (c *checker) resolve(p string) string {
	if !path.IsAbs(p) && c.sh.cwd != "" {
		p = c.sh.cwd + "/" + p
	}
	return path.Clean(p)
}
