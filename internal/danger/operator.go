package danger

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

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
