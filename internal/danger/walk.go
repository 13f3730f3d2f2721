package danger

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// checker follows a text. It visits each statement, whatever condition it stands under.
type checker struct {
	rules    *Rules
	v        *Verdict
	sh       shell
	files    map[string]string // contents that the text writes, by path
	uncalled map[string]*syntax.Stmt
	outputs  map[syntax.Node]string // of the substitutions in the word that is expanded
	defaults map[string]bool        // variables with a default, in the word that is expanded
	whole    bool                   // words are not split
	steps    int
	depth    int
	calls    int
	reader   string // the program that reads the terminal afterwards: "sh", an interpreter, or ""
}

// shell is the state that a subshell copies.
type shell struct {
	vars    map[string]expand.Variable
	funcs   map[string]*syntax.Stmt
	aliases map[string]string
	cwd     string   // "": not known
	zero    string   // $0
	args    []string // $1 and so on; nil: not known
}

func newChecker(r *Rules, v *Verdict, at Place) *checker {
	return &checker{
		rules: r, v: v, files: map[string]string{}, uncalled: map[string]*syntax.Stmt{},
		outputs: map[syntax.Node]string{},
		sh: shell{map[string]expand.Variable{}, map[string]*syntax.Stmt{}, map[string]string{}, at.Cwd,
			"bash", nil},
	}
}

// limit ends a walk that became too large.
type limit string

// spend counts the work for one command. Texts count by their length.
func (c *checker) spend(steps int) {
	if c.steps += steps; c.steps > maxSteps {
		panic(limit("it takes too many steps"))
	}
}

// deeper counts the nesting up to the end of the caller: defer c.deeper()().
func (c *checker) deeper() func() {
	c.spend(1)
	if c.depth++; c.depth > maxDepth {
		panic(limit("it is nested too deep"))
	}
	return func() { c.depth-- }
}

// guard ends a walk. A fault of the parser or of this package needs confirmation too.
func (c *checker) guard(v *Verdict) {
	if why := recover(); why != nil {
		text, ok := why.(limit)
		if !ok {
			text = "a fault of the checker"
		}
		v.add(false, "cannot be checked: %s", string(text))
	}
}

// harms reports harm by the built-in rules.
func (c *checker) harms(format string, args ...any) {
	if len(c.rules.patterns) == 0 {
		c.v.add(true, format, args...)
	}
}

// unsure reports that nobody knows what runs.
func (c *checker) unsure(format string, args ...any) { c.v.add(false, format, args...) }

// quietly looks only for harm.
func (c *checker) quietly(f func()) {
	before, found := c.v, &Verdict{}
	c.v = found
	defer func() {
		if c.v = before; found.Harms {
			before.merge(*found)
		}
	}()
	f()
}

// copied is a copy of the variables.
func (c *checker) copied() map[string]expand.Variable {
	c.spend(len(c.sh.vars) / 16)
	return maps.Clone(c.sh.vars)
}

// subshell does something that changes no state of this shell.
func (c *checker) subshell(f func() string) string {
	before := c.sh
	c.sh.vars, c.sh.funcs, c.sh.aliases = c.copied(), maps.Clone(before.funcs), maps.Clone(before.aliases)
	out := f()
	c.sh = before
	return out
}

// branches follows alternatives. A variable that they set differently is not known afterwards.
func (c *checker) branches(list ...func()) {
	before := c.sh.vars
	var after map[string]expand.Variable
	for _, follow := range list {
		c.sh.vars = before
		c.sh.vars = c.copied()
		follow()
		if after == nil {
			after = c.sh.vars
		}
		for _, vars := range []map[string]expand.Variable{after, c.sh.vars} {
			for name := range vars {
				if !reflect.DeepEqual(after[name], c.sh.vars[name]) {
					after[name] = text(hole)
				}
			}
		}
	}
	c.sh.vars = after
}

// script follows a text, and gives what it prints.
func (c *checker) script(text string, in *string) string {
	defer c.deeper()()
	if len(text) > MaxCommand || nested(text) {
		panic(limit("it is nested too deep, or too long"))
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		c.unsure("cannot be parsed: %v", err)
		return hole
	}
	return c.stmts(file.Stmts, in)
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
	defer c.deeper()()
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
	c.spend(len(out) / 64)
	for _, t := range targets {
		c.files[c.resolve(t)], out = out, ""
	}
	return out
}

// redirect gives the input of a command, and the files that it writes to.
func (c *checker) redirect(r *syntax.Redirect, in *string) (*string, []string) {
	text, known := "", true
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		text = c.document(r)
	case syntax.WordHdoc:
		text = c.value(r.Word) + "\n"
	case syntax.RdrIn:
		text, known = c.files[c.resolve(c.value(r.Word))]
	case syntax.DplIn:
		text, known = c.files["/dev/fd/"+c.value(r.Word)]
	case syntax.DplOut:
		c.value(r.Word)
		return in, nil
	default:
		targets := c.fields(r.Word)
		for _, t := range targets {
			c.written(t, ">", r.Op == syntax.AppOut || r.Op == syntax.AppAll)
		}
		return in, targets
	}
	switch {
	case !known:
	case r.N == nil || r.N.Value == "0":
		return &text, nil
	default:
		c.files["/dev/fd/"+r.N.Value] = text
	}
	return in, nil
}

func (c *checker) command(cmd syntax.Command, in *string) (out string) {
	follow := func(list []*syntax.Stmt) func() {
		return func() { out = bounded(out + c.stmts(list, in)) }
	}
	switch x := cmd.(type) {
	case *syntax.CallExpr:
		return c.simple(x, in)
	case *syntax.BinaryCmd:
		if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
			left := c.stmt(x.X, in)
			return c.stmt(x.Y, &left)
		}
		list := operands(x)
		follow(list[:1])()
		c.branches(follow(list[1:]), func() {})
	case *syntax.Subshell:
		return c.subshell(func() string { return c.stmts(x.Stmts, in) })
	case *syntax.Block:
		return c.stmts(x.Stmts, in)
	case *syntax.IfClause:
		follow(x.Cond)()
		c.branches(follow(x.Then), func() {
			if x.Else != nil {
				out = bounded(out + c.command(x.Else, in))
			}
		})
	case *syntax.WhileClause:
		follow(x.Cond)()
		c.branches(follow(x.Do), func() {})
	case *syntax.ForClause:
		return c.loop(x, in)
	case *syntax.CaseClause:
		c.prepare(x.Word)
		items := []func(){func() {}}
		for _, item := range x.Items {
			items = append(items, follow(item.Stmts))
		}
		c.branches(items...)
	case *syntax.FuncDecl:
		if x.Name == nil { // "() ls" has none
			return c.stmt(x.Body, in)
		}
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
		c.prepare(cmd)
	}
	return out
}

// operands are the parts of a list with && and ||.
func operands(x *syntax.BinaryCmd) []*syntax.Stmt {
	list := []*syntax.Stmt{x.Y}
	for {
		left, ok := x.X.Cmd.(*syntax.BinaryCmd)
		if !ok || left.Op == syntax.Pipe || left.Op == syntax.PipeAll {
			list = append(list, x.X)
			slices.Reverse(list)
			return list
		}
		x, list = left, append(list, left.Y)
	}
}

// loop follows the body of a loop for each of its items.
func (c *checker) loop(x *syntax.ForClause, in *string) (out string) {
	items, ok := x.Loop.(*syntax.WordIter)
	if !ok {
		c.prepare(x.Loop)
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

// resolve is a path as the shell sees it.
func (c *checker) resolve(p string) string {
	if !path.IsAbs(p) && c.sh.cwd != "" {
		p = c.sh.cwd + "/" + p
	}
	return path.Clean(p)
}
