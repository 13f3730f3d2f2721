package danger

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variable is what the text gives a variable, anywhere.
type variable struct {
	values []string   // as a plain variable
	lists  [][]string // as an array
}

// environment has the variables whose value is about known where the text does not set them.
var environment = map[string]string{
	"HOME": "~", "PWD": ".", "OLDPWD": ".", "SHELL": "/bin/sh", "BASH": "/bin/bash", "IFS": " \t\n", "0": "bash", "#": string(anyMade), "?": "0",
	"$": string(anyMade), "!": string(anyMade), "-": "", "_": string(anyMade), "RANDOM": string(anyMade), "UID": string(anyMade), "EUID": string(anyMade),
	"BASH_COMMAND": string(anyMade), "REPLY": string(anyMade),
}

// param expands a parameter.
func (c *checker) param(p *syntax.ParamExp, quoted bool) []words {
	if p.Param == nil || p.Flags != nil || p.NestedParam != nil || p.Names != 0 || len(p.Modifiers) > 0 {
		c.inner(p)
		return []words{one(string(anyMade))}
	}
	name := p.Param.Value
	if p.Length {
		return []words{one(string(anyMade))}
	}
	if lists := c.lists(name, p); lists != nil {
		return c.listWords(p, lists, quoted)
	}
	values, set := c.lookup(name, p.Index)
	if p.Excl {
		values = c.indirect(values)
	}
	if p.Exp != nil {
		values = c.operator(p, values, set)
	}
	if p.Slice != nil {
		values = c.slice(p.Slice, name, values)
	}
	if p.Repl != nil {
		values = c.replace(p.Repl, values)
	}
	var all []words
	for _, v := range values {
		all = append(all, c.split(v, quoted))
	}
	return all
}

// lookup gives the possible values of a variable, and whether the text or the shell sets it.
func (c *checker) lookup(name string, index syntax.ArithmExpr) (values []string, set bool) {
	if name == "0" && c.zero != "" {
		return []string{c.zero}, true
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 {
		switch {
		case !c.argsKnown:
			return []string{string(anyEnv)}, true
		case n <= len(c.positional):
			return []string{c.positional[n-1]}, true
		}
		return []string{""}, false
	}
	if v := c.vars[name]; v != nil {
		values = slices.Clone(v.values)
		for _, list := range v.lists {
			if n, ok := number(index); ok || index == nil {
				if n < len(list) {
					values = add(values, list[n])
				}
				continue
			}
			values = add(values, list...)
		}
		if len(values) == 0 {
			values = []string{""}
		}
		return values, true
	}
	if index != nil {
		c.inner(index)
	}
	if v, ok := environment[name]; ok {
		return []string{v}, true
	}
	return []string{string(anyEnv)}, false
}

func number(x syntax.ArithmExpr) (int, bool) {
	w, ok := x.(*syntax.Word)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(w.Lit())
	return n, err == nil && n >= 0
}

// lists gives the possible lists of what is one: $@, $* and whole arrays.
func (c *checker) lists(name string, p *syntax.ParamExp) [][]string {
	if name == "@" || name == "*" {
		if !c.argsKnown {
			return [][]string{{string(anyEnv)}}
		}
		return [][]string{c.positional}
	}
	w, ok := p.Index.(*syntax.Word)
	if !ok || w.Lit() != "@" && w.Lit() != "*" {
		return nil
	}
	if v := c.vars[name]; v != nil {
		lists := slices.Clone(v.lists)
		for _, value := range v.values {
			lists = append(lists, []string{value})
		}
		return lists
	}
	return [][]string{{string(anyEnv)}}
}

func (c *checker) listWords(p *syntax.ParamExp, lists [][]string, quoted bool) (all []words) {
	whole := p.Param.Value == "*"
	if w, ok := p.Index.(*syntax.Word); ok && w.Lit() == "*" {
		whole = true
	}
	for _, list := range lists {
		if p.Slice != nil {
			from, ok := number(p.Slice.Offset)
			if p.Param.Value == "@" || p.Param.Value == "*" {
				from-- // $@ begins with 1
			}
			if ok && from >= 0 {
				list = list[min(from, len(list)):]
			}
			if n, ok := number(p.Slice.Length); ok {
				list = list[:min(n, len(list))]
			}
		}
		if p.Exp != nil && len(list) == 0 {
			for _, v := range c.operator(p, []string{""}, false) {
				all = append(all, c.split(v, quoted))
			}
			continue
		}
		if p.Repl != nil || p.Exp != nil && p.Exp.Op >= syntax.RemSmallSuffix {
			var edited []string
			for _, item := range list {
				values := []string{item}
				if p.Repl != nil {
					values = c.replace(p.Repl, values)
				} else {
					values = c.operator(p, values, true)
				}
				edited = append(edited, values[0])
			}
			list = edited
		}
		switch {
		case whole && quoted:
			all = append(all, one(strings.Join(list, " ")))
		case quoted:
			all = append(all, words{list: list})
		default:
			made := words{}
			for i, item := range list {
				w := c.split(item, false)
				w.before = w.before || i > 0
				made = made.then(w)
			}
			all = append(all, made)
		}
		if len(all) >= maxValues {
			break
		}
	}
	return all
}

// indirect gives what the variables that are named by values hold.
func (c *checker) indirect(names []string) (values []string) {
	for _, n := range names {
		if !syntax.ValidName(n) {
			values = add(values, string(anyMade))
			continue
		}
		v, _ := c.lookup(n, nil)
		values = add(values, v...)
	}
	return values
}

// assign gives a variable further values.
func (c *checker) assign(name string, values ...string) {
	if name == "IFS" {
		for _, v := range values {
			if len(c.ifs) < 64 {
				c.ifs += v
			}
		}
	}
	v := c.variable(name)
	v.values = add(v.values, values...)
}

func (c *checker) variable(name string) *variable {
	v := c.vars[name]
	if v == nil {
		v = &variable{}
		if c.vars[name] = v; len(c.vars) > maxWords {
			c.giveUp("too many variables")
		}
	}
	return v
}
