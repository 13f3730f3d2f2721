package danger

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// input is what a command reads, where that is not a terminal or a file.
type input struct {
	piped  bool
	values []string // what it may be
}

func (c *checker) stmts(list []*syntax.Stmt, in input) []string {
	out := []string{""}
	for _, s := range list {
		out = c.concat(out, c.stmt(s, in))
	}
	return out
}

// concat gives what is printed where one thing is printed after another.
func (c *checker) concat(as, bs []string) (all []string) {
	for _, a := range as {
		for _, b := range bs {
			c.spend(1 + (len(a)+len(b))/256)
			all = add(all, a+b)
		}
	}
	return all
}

// stmt looks at a statement, and gives what it may print.
func (c *checker) stmt(s *syntax.Stmt, in input) (out []string) {
	if s == nil {
		return []string{""}
	}
	c.spend(1)
	c.deeper(func() {
		var files []string
		for _, r := range s.Redirs {
			in, files = c.redirect(r, in, files)
		}
		if s.Cmd == nil {
			out = []string{""}
			return
		}
		out = c.cmd(s.Cmd, in)
		if len(files) > 0 {
			for _, f := range files {
				c.write(f, out)
			}
			out = []string{""}
		}
	})
	return out
}

// redirect gives the input after a redirection, and the files that standard output goes to.
func (c *checker) redirect(r *syntax.Redirect, in input, files []string) (input, []string) {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		values := c.heredoc(r)
		if r.N == nil || r.N.Value == "0" {
			in = input{true, values}
		}
		return in, files
	case syntax.WordHdoc:
		var values []string
		for _, v := range c.text(r.Word) {
			values = add(values, v+"\n")
		}
		return input{true, values}, files
	case syntax.DplIn, syntax.DplOut:
		for _, target := range c.text(r.Word) {
			if r.Op == syntax.DplOut && strings.Trim(target, "0123456789-") != "" {
				c.written(target, ">")
				files = append(files, target)
			}
		}
		return in, files
	case syntax.RdrIn:
		in = input{}
		for _, target := range c.text(r.Word) {
			if text, ok := c.file(target); ok {
				in = input{true, text}
			}
		}
		return in, files
	}
	for _, target := range c.text(r.Word) {
		c.written(target, ">")
		if r.N == nil || r.N.Value == "1" {
			files = append(files, target)
		}
	}
	return in, files
}

func (c *checker) cmd(cmd syntax.Command, in input) []string {
	switch x := cmd.(type) {
	case *syntax.CallExpr:
		return c.call(x, in)
	case *syntax.BinaryCmd:
		left := c.stmt(x.X, in)
		if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
			return c.stmt(x.Y, input{true, left})
		}
		return c.concat(left, c.stmt(x.Y, in))
	case *syntax.Block:
		return c.stmts(x.Stmts, in)
	case *syntax.Subshell:
		return c.stmts(x.Stmts, in)
	case *syntax.IfClause:
		return c.ifClause(x, in)
	case *syntax.WhileClause:
		c.stmts(x.Cond, in)
		return c.repeated(x.Do, in)
	case *syntax.ForClause:
		c.loop(x.Loop)
		return c.repeated(x.Do, in)
	case *syntax.CaseClause:
		c.text(x.Word)
		out := []string{""}
		for _, item := range x.Items {
			for _, p := range item.Patterns {
				c.text(p)
			}
			out = add(out, c.stmts(item.Stmts, in)...)
		}
		return out
	case *syntax.FuncDecl:
		c.define(x)
	case *syntax.DeclClause:
		c.declare(x)
	case *syntax.TimeClause:
		return c.stmt(x.Stmt, in)
	case *syntax.CoprocClause:
		return c.stmt(x.Stmt, input{true, []string{string(anyMade)}})
	default: // tests and arithmetic
		c.inner(x)
	}
	return []string{""}
}

func (c *checker) ifClause(x *syntax.IfClause, in input) []string {
	out := c.concat(c.stmts(x.Cond, in), c.stmts(x.Then, in))
	for e := x.Else; e != nil; e = e.Else {
		c.spend(1)
		out = add(out, c.concat(c.stmts(e.Cond, in), c.stmts(e.Then, in))...)
	}
	return out
}

// repeated looks at the body of a loop. What it prints is known where that is nothing.
func (c *checker) repeated(body []*syntax.Stmt, in input) []string {
	out := c.stmts(body, in)
	if len(out) == 1 && (out[0] == "" || opaque(strings.ReplaceAll(out[0], "./", ""))) {
		return out
	}
	return add(out, string(anyMade))
}

func (c *checker) loop(loop syntax.Loop) {
	switch l := loop.(type) {
	case *syntax.WordIter:
		lists := c.args(l.Items)
		if !l.InPos.IsValid() {
			lists = [][]string{c.positional}
			if !c.argsKnown {
				lists = [][]string{{string(anyEnv)}}
			}
		}
		for _, list := range lists {
			c.assign(l.Name.Value, list...)
		}
	default:
		c.inner(loop)
	}
}

// call looks at a simple command.
func (c *checker) call(x *syntax.CallExpr, in input) (out []string) {
	for _, a := range x.Assigns {
		c.assignment(a)
	}
	if len(x.Args) == 0 {
		return []string{""}
	}
	for _, list := range c.args(x.Args) {
		out = add(out, c.command(list, in)...)
	}
	return out
}

func (c *checker) declare(x *syntax.DeclClause) {
	for _, a := range x.Args {
		switch {
		case a.Name != nil:
			c.assignment(a)
		case a.Value != nil: // declare "$x": a name and a value that are worked out first
			for _, v := range c.text(a.Value) {
				if name, value, ok := strings.Cut(v, "="); ok && syntax.ValidName(name) {
					c.assign(name, value)
				}
			}
		}
	}
}

// runs are variables whose value a program runs as a command.
var runs = map[string]bool{"PROMPT_COMMAND": true, "PAGER": true, "EDITOR": true, "VISUAL": true, "GIT_PAGER": true, "GIT_EDITOR": true, "GIT_SSH_COMMAND": true,
	"GIT_EXTERNAL_DIFF": true, "LESSOPEN": true, "MANPAGER": true, "BROWSER": true, "PS0": true, "PS1": true, "PS4": true}

func (c *checker) assignment(a *syntax.Assign) {
	name := a.Name.Value
	switch {
	case a.Array != nil:
		v := c.variable(name)
		var lists [][]string
		var items []*syntax.Word
		for _, e := range a.Array.Elems {
			c.inner(e.Index)
			if e.Value != nil {
				items = append(items, e.Value)
			}
		}
		lists = c.args(items)
		if a.Append {
			for _, old := range v.lists {
				for _, list := range lists {
					if len(v.lists)+len(lists) < maxValues && len(old)+len(list) < maxWords {
						lists = append(lists, append(old[:len(old):len(old)], list...))
					}
				}
			}
		}
		if v.lists = append(v.lists, lists...); len(v.lists) > maxValues {
			v.lists = [][]string{{string(anyMade)}}
		}
	case a.Naked:
		c.variable(name)
	case a.Append:
		old, _ := c.lookup(name, nil)
		c.assign(name, c.concat(old, c.text(a.Value))...)
	case a.Index != nil:
		c.inner(a.Index)
		v := c.variable(name)
		for _, value := range c.text(a.Value) {
			v.values = add(v.values, value)
			if n, ok := number(a.Index); ok && len(v.lists) < maxValues {
				list := []string{}
				if len(v.lists) > 0 {
					list = append(list, v.lists[len(v.lists)-1]...)
				}
				if n == len(list) {
					v.lists = append(v.lists, append(list, value))
				}
			}
		}
	default:
		values := c.text(a.Value)
		c.assign(name, values...)
		if runs[name] {
			for _, v := range values {
				if !opaque(v) {
					c.quietly(func() { c.shell(v, input{}) })
				}
			}
		}
	}
}
