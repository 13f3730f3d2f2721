package danger

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// args gives the possible lists of words that a command's words expand to.
func (c *checker) args(ws []*syntax.Word) [][]string {
	all := []words{{}}
	for _, w := range ws {
		for _, part := range c.braces(w) {
			next := c.parts(part, false)
			for i := range next {
				next[i].before = true
			}
			all = c.cross(all, next)
		}
	}
	lists := make([][]string, 0, len(all))
	for _, a := range all {
		lists = append(lists, a.list)
	}
	return lists
}

// text gives the possible values of a word where it is not split: in assignments, redirections and here-strings.
func (c *checker) text(w *syntax.Word) (values []string) {
	if w == nil {
		return []string{""}
	}
	for _, a := range c.parts(w.Parts, false) {
		values = add(values, strings.Join(a.list, " "))
	}
	return values
}

// heredoc gives the possible texts of a here-document.
func (c *checker) heredoc(r *syntax.Redirect) (values []string) {
	if r.Hdoc == nil {
		return []string{""}
	}
	verbatim := false
	for _, p := range r.Word.Parts {
		if lit, ok := p.(*syntax.Lit); !ok || strings.Contains(lit.Value, `\`) {
			verbatim = true
		}
	}
	all := []words{one("")}
	for _, p := range r.Hdoc.Parts {
		next := []words{}
		if lit, ok := p.(*syntax.Lit); ok && verbatim {
			next = append(next, one(lit.Value))
		} else {
			next = c.part(p, true)
		}
		all = c.cross(all, next)
	}
	for _, a := range all {
		values = add(values, strings.Join(a.list, " "))
	}
	return values
}

func (c *checker) parts(parts []syntax.WordPart, quoted bool) []words {
	all := []words{{}}
	for _, p := range parts {
		all = c.cross(all, c.part(p, quoted))
	}
	return all
}

// cross joins each of one set of possibilities with each of another. Where those are too many, it is the first, or anything.
func (c *checker) cross(as, bs []words) []words {
	if len(as)*len(bs) > maxValues && len(bs) > 1 {
		bs = []words{bs[0], {[]string{string(anyMade)}, bs[0].before, bs[0].after}}
	}
	if len(as)*len(bs) > maxValues {
		as = slices.Clone(as[:maxValues/len(bs)])
		if last := &as[len(as)-1]; len(last.list) <= 1 {
			last.list = []string{string(anyMade)} // so that a program, or a target, counts as not known
		}
	}
	all := make([]words, 0, len(as)*len(bs))
	for _, a := range as {
		for _, b := range bs {
			joined := a.then(b)
			n := 0
			for _, w := range joined.list {
				n += len(w)
			}
			c.spend(1 + (n+len(joined.list)*8)/256)
			if len(joined.list) > maxWords || n > maxText {
				c.giveUp("a command of too many words")
			}
			all = append(all, joined)
		}
	}
	return all
}

func (c *checker) part(p syntax.WordPart, quoted bool) []words {
	c.spend(1)
	switch p := p.(type) {
	case *syntax.Lit:
		if quoted {
			return []words{one(unescape(p.Value, "$`\"\\\n"))}
		}
		return []words{one(literal(p.Value))}
	case *syntax.SglQuoted:
		if p.Dollar {
			return []words{one(ansiC(p.Value))}
		}
		return []words{one(p.Value)}
	case *syntax.DblQuoted:
		if len(p.Parts) == 0 {
			return []words{one("")}
		}
		all := c.parts(p.Parts, true)
		for i := range all {
			if len(all[i].list) == 0 {
				all[i].list = []string{""}
			}
		}
		return all
	case *syntax.ParamExp:
		return c.param(p, quoted)
	case *syntax.CmdSubst:
		var all []words
		for _, out := range c.substitute(p.Stmts) {
			all = append(all, c.split(strings.TrimRight(out, "\n"), quoted))
		}
		return all
	case *syntax.ProcSubst:
		return []words{one(c.processSubstitution(p))}
	case *syntax.ArithmExp:
		return []words{one(c.arithmetic(p.X))}
	case *syntax.ExtGlob:
		return []words{one(string(anyText))}
	}
	return []words{one(string(anyMade))}
}

// arithmetic runs what an expression runs, and gives its value where it is a number.
func (c *checker) arithmetic(x syntax.ArithmExpr) string {
	if w, ok := x.(*syntax.Word); ok {
		if n, err := strconv.Atoi(w.Lit()); err == nil {
			return strconv.Itoa(n)
		}
	}
	c.inner(x)
	return string(anyMade)
}

// inner runs the commands inside of what is not worked out.
func (c *checker) inner(n syntax.Node) {
	if n == nil {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			c.substitute(n.Stmts)
			return false
		case *syntax.ProcSubst:
			c.processSubstitution(n)
			return false
		case *syntax.ParamExp:
			if n.Exp != nil && n.Exp.Op == syntax.AssignUnset || n.Exp != nil && n.Exp.Op == syntax.AssignUnsetOrNull {
				c.param(n, true)
			}
		}
		return true
	})
}

// split makes words of an expansion: one, where it is quoted, else as many as IFS makes of it.
func (c *checker) split(text string, quoted bool) words {
	if quoted {
		return one(text)
	}
	blank := func(r rune) bool { return strings.ContainsRune(c.ifs, r) }
	list := strings.FieldsFunc(text, blank)
	for i := range list {
		list[i] = globs(list[i])
	}
	if len(list) == 0 {
		return words{before: text != "", after: text != ""}
	}
	return words{list, strings.IndexFunc(text, blank) == 0, strings.LastIndexFunc(text, blank) == len(text)-1}
}

// braces gives the words that brace expansion makes of one.
func (c *checker) braces(w *syntax.Word) [][]syntax.WordPart {
	syntax.SplitBraces(w)
	if !slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool { _, ok := p.(*syntax.BraceExp); return ok }) {
		return [][]syntax.WordPart{w.Parts}
	}
	all := [][]syntax.WordPart{nil}
	for _, p := range w.Parts {
		var choices [][]syntax.WordPart
		if b, ok := p.(*syntax.BraceExp); !ok {
			choices = [][]syntax.WordPart{{p}}
		} else if b.Sequence {
			choices = sequence(b)
		} else {
			for _, elem := range b.Elems {
				choices = append(choices, c.braces(elem)...)
			}
		}
		var next [][]syntax.WordPart
		for _, a := range all {
			for _, b := range choices {
				if c.spend(1 + len(a)/32); len(next) >= maxWords {
					c.giveUp("a word of too many alternatives")
				}
				next = append(next, append(a[:len(a):len(a)], b...))
			}
		}
		all = next
	}
	return all
}

// sequence gives {a..e} and {1..3}, and "anything" for what is long.
func sequence(b *syntax.BraceExp) (all [][]syntax.WordPart) {
	from, to := b.Elems[0].Lit(), b.Elems[1].Lit()
	lit := func(s string) []syntax.WordPart { return []syntax.WordPart{&syntax.Lit{Value: s}} }
	lo, err1 := strconv.Atoi(from)
	hi, err2 := strconv.Atoi(to)
	letters := err1 != nil || err2 != nil
	if letters && len(from) == 1 && len(to) == 1 {
		lo, hi = int(from[0]), int(to[0])
	}
	step := 1
	if hi < lo {
		step = -1
	}
	if (hi-lo)*step > maxValues || (hi-lo)*step < 0 || letters && (len(from) != 1 || len(to) != 1) {
		return [][]syntax.WordPart{lit(string(anyMade))}
	}
	for i := lo; ; i += step {
		if letters {
			all = append(all, lit(string(rune(i))))
		} else {
			all = append(all, lit(strconv.Itoa(i)))
		}
		if i == hi {
			return all
		}
	}
}
