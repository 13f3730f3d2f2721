package danger

import (
	"regexp"
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

// operator applies :-, :=, :+, #, %, ^ and the like.
func (c *checker) operator(p *syntax.ParamExp, values []string, set bool) (result []string) {
	switch op := p.Exp.Op; op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		other := c.text(p.Exp.Word)
		if op == syntax.AssignUnset || op == syntax.AssignUnsetOrNull {
			c.assign(p.Param.Value, other...)
		}
		if set && (len(values) != 1 || known(values[0]) != "") {
			return add(slices.Clone(values), other...)
		}
		return add(nil, other...) // what the text says, though the environment may have another
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		if !set {
			return add([]string{""}, c.text(p.Exp.Word)...)
		}
		return add(c.text(p.Exp.Word), "")
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		c.text(p.Exp.Word)
		return values
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.RemSmallPrefix, syntax.RemLargePrefix:
		for _, pattern := range c.text(p.Exp.Word) {
			for _, v := range values {
				result = add(result, trim(v, pattern, op))
			}
		}
		return result
	case syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
		if p.Exp.Word != nil {
			break
		}
		for _, v := range values {
			n := min(len(v), 1)
			switch op {
			case syntax.UpperAll:
				v = strings.ToUpper(v)
			case syntax.LowerAll:
				v = strings.ToLower(v)
			case syntax.UpperFirst:
				v = strings.ToUpper(v[:n]) + v[n:]
			case syntax.LowerFirst:
				v = strings.ToLower(v[:n]) + v[n:]
			}
			result = add(result, v)
		}
		return result
	}
	c.text(p.Exp.Word)
	return []string{string(anyMade)}
}

// slice gives ${X:2:3}. The first character of a path that is known to be absolute is known too.
func (c *checker) slice(s *syntax.Slice, name string, values []string) (result []string) {
	from, ok := number(s.Offset)
	length, bounded := number(s.Length)
	if !ok || s.Length != nil && !bounded {
		c.inner(s.Offset)
		c.inner(s.Length)
		return []string{string(anyMade)}
	}
	if from == 0 && length == 1 && c.vars[name] == nil && slices.Contains([]string{"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "BASH"}, name) {
		return []string{"/"}
	}
	for _, v := range values {
		if strings.ContainsAny(v, wild) || environment[name] == v {
			result = add(result, string(anyMade))
			continue
		}
		v = v[min(from, len(v)):]
		if bounded {
			v = v[:min(length, len(v))]
		}
		result = add(result, v)
	}
	return result
}

// replace gives ${X/from/to}.
func (c *checker) replace(r *syntax.Replace, values []string) (result []string) {
	for _, from := range c.text(r.Orig) {
		for _, to := range c.text(r.With) {
			anchor := ""
			if strings.HasPrefix(from, "#") || strings.HasPrefix(from, "%") {
				anchor, from = from[:1], from[1:]
			}
			for _, v := range values {
				re := glob2regexp(from, map[string]string{"#": "^", "%": ""}[anchor], map[string]string{"%": "$"}[anchor])
				if strings.ContainsAny(v, wild) || re == nil {
					result = add(result, string(anyMade))
					continue
				}
				done := false
				result = add(result, re.ReplaceAllStringFunc(v, func(found string) string {
					if done || found == "" {
						return found
					}
					done = !r.All
					return to
				}))
			}
		}
	}
	return result
}

// trim takes a prefix or suffix away that matches.
func trim(v, text string, op syntax.ParExpOperator) string {
	suffix := op == syntax.RemSmallSuffix || op == syntax.RemLargeSuffix
	before, after := "^", ""
	if suffix {
		before, after = "", "$"
	}
	if strings.ContainsAny(v, unknowns) {
		return string(anyMade)
	}
	re := glob2regexp(text, before, after)
	if re == nil {
		return string(anyMade)
	}
	large := op == syntax.RemLargeSuffix || op == syntax.RemLargePrefix
	for n := range len(v) + 1 { // by length, as the first match is not the shortest
		if n > 256 {
			return string(anyMade)
		}
		if large {
			n = len(v) - n
		}
		if part := v[:n]; !suffix && re.MatchString(part) && re.FindString(part) == part {
			return v[n:]
		}
		if part := v[len(v)-n:]; suffix && re.MatchString(part) && re.FindString(part) == part {
			return v[:len(v)-n]
		}
	}
	return v
}

// glob2regexp makes a regular expression of a shell's pattern, and nil of one that isn't known.
func glob2regexp(text, before, after string) *regexp.Regexp {
	if strings.ContainsAny(text, unknowns) || len(text) > 256 {
		return nil
	}
	var b strings.Builder
	b.WriteString("(?s)" + before)
	for _, r := range text {
		switch r {
		case anyText:
			b.WriteString(".*")
		case anyByte:
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	re, err := regexp.Compile(b.String() + after)
	if err != nil {
		return nil
	}
	return re
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
