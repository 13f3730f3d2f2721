package danger

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of the work that one command is worth.
const (
	maxSteps  = 20000
	maxDepth  = 60             // commands in commands
	maxShells = 8              // sh -c in sh -c, functions in functions
	maxParsed = 3 * MaxCommand // bytes, with what is parsed again
	maxNested = 48             // brackets in brackets
	maxTicks  = 2000           // backquotes, of which the parser reads all that follow again and again
)

// checker works out one command.
type checker struct {
	rules   *Rules
	verdict *Verdict

	vars       map[string]*variable
	funcs      map[string]*syntax.Stmt
	called     map[string]bool
	aliases    map[string]string
	files      map[string][]string // what this text writes, by name
	folders    []string            // working folders that are known, or "" where one is not
	zero       string              // $0
	positional []string
	argsKnown  bool
	ifs        string

	steps, depth, parsed int
	active               []string       // aliases that are being used
	calls                []*syntax.Stmt // bodies of functions that are being called
	running              []string       // texts that shells are running
	muted                bool           // what is found does not count
	again                bool           // the second look
}

func newChecker(r *Rules, v *Verdict) *checker {
	return &checker{rules: r, verdict: v, vars: map[string]*variable{}, funcs: map[string]*syntax.Stmt{}, called: map[string]bool{}, aliases: map[string]string{},
		files: map[string][]string{}, folders: []string{""}, argsKnown: true, ifs: " \t\n"}
}

// found notes a danger.
func (c *checker) found(format string, args ...any) {
	if !c.muted {
		c.verdict.add(format, args...)
	}
}

// harms notes what a built-in rule finds.
func (c *checker) harms(format string, args ...any) {
	if !c.rules.own {
		c.found(format, args...)
	}
}

// tooMuch is what ends the work.
type tooMuch struct{ why string }

func (c *checker) giveUp(why string) { panic(tooMuch{why}) }

func (c *checker) spend(steps int) {
	if c.steps += steps; c.steps > maxSteps {
		c.giveUp("it takes too many steps")
	}
}

// guard does work, and says so where it could not be done.
func (c *checker) guard(work func()) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case tooMuch:
			c.verdict.unparsed(e.why)
		default:
			c.verdict.unparsed("a fault of the checker")
		}
	}()
	work()
}

func (c *checker) deeper(work func()) {
	if c.depth++; c.depth > maxDepth {
		c.giveUp("commands nest too deep")
	}
	work()
	c.depth--
}

// quietly does work in which what can't be parsed is nothing to complain of.
func (c *checker) quietly(work func()) {
	unparsed, matches, dangerous := c.verdict.Unparsed, slices.Clone(c.verdict.Matches), c.verdict.Dangerous
	work()
	if c.verdict.Unparsed && !unparsed {
		kept := matches
		for _, m := range c.verdict.Matches {
			if !slices.Contains(matches, m) && !strings.HasPrefix(m, "cannot be checked") {
				kept = append(kept, m)
			}
		}
		c.verdict.Matches, c.verdict.Unparsed, c.verdict.Dangerous = kept, false, dangerous || len(kept) > len(matches)
	}
}

// parse reads a text as bash does.
func (c *checker) parse(text string, lang syntax.LangVariant) (*syntax.File, error) {
	if c.parsed += len(text); c.parsed > maxParsed {
		c.giveUp("too much text in it is a command")
	}
	if err := shallow(text); err != nil {
		return nil, err
	}
	return syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
}

// errDeep is given for text that nests deeper than the parser has time for.
var errDeep = errors.New("it nests too deep")

// shallow refuses what nests deep before the parser sees it, which takes a long time for that.
func shallow(text string) error {
	brackets, keywords, ticks, word := 0, 0, 0, 0
	for i := 0; i <= len(text); i++ {
		var b byte = ' '
		if i < len(text) {
			b = text[i]
		}
		if b >= 'a' && b <= 'z' {
			continue
		}
		switch text[word:i] {
		case "if", "while", "until", "for", "select", "case", "time", "coproc", "function":
			keywords++
		case "fi", "done", "esac":
			keywords = max(0, keywords-1)
		}
		word = i + 1
		switch b {
		case '(', '{', '[':
			brackets++
		case ')', '}', ']':
			brackets = max(0, brackets-1)
		case '!':
			keywords++
		case '`':
			ticks++
		}
		if brackets > maxNested || keywords > 20*maxNested || ticks > maxTicks {
			return errDeep
		}
	}
	return nil
}

// script looks at the whole command: twice, so that what is set late counts early.
func (c *checker) script(text string) {
	file, err := c.parse(text, syntax.LangBash)
	if err != nil {
		c.verdict.unparsed(reason(err))
		return
	}
	c.stmts(file.Stmts, input{})
	c.again = true
	c.stmts(file.Stmts, input{})
	c.uncalled()
}

// reason is why something could not be parsed.
func reason(err error) string {
	var p syntax.ParseError
	if errors.As(err, &p) {
		return fmt.Sprintf("no shell syntax at %s: %s", p.Pos, p.Text)
	}
	return err.Error()
}

// shell looks at text that a shell runs in the midst of a command, and gives what it may print.
func (c *checker) shell(text string, in input) (out []string) {
	if slices.Contains(c.running, text) { // a variable has all its values at once, also that which is being run
		return []string{string(anyMade)}
	}
	if len(c.running) >= maxShells {
		c.giveUp("shells nest too deep")
	}
	c.running = append(c.running, text)
	defer func() { c.running = c.running[:len(c.running)-1] }()
	if !c.muted {
		c.rules.match(c.verdict, text)
	}
	file, err := c.parse(text, syntax.LangBash)
	if err != nil {
		if !c.muted {
			c.verdict.unparsed(reason(err))
		}
		return []string{string(anyMade)}
	}
	c.deeper(func() { out = c.stmts(file.Stmts, in) })
	return out
}

// with looks at text that a shell runs with arguments of its own.
func (c *checker) with(args []string, work func() []string) []string {
	before, knew := c.positional, c.argsKnown
	c.positional, c.argsKnown = args, true
	defer func() { c.positional, c.argsKnown = before, knew }()
	return work()
}

func (c *checker) substitute(stmts []*syntax.Stmt) (out []string) {
	c.deeper(func() { out = c.stmts(stmts, input{}) })
	return out
}

// processSubstitution gives the name of a file that holds what commands print.
func (c *checker) processSubstitution(p *syntax.ProcSubst) string {
	name := fmt.Sprintf("/dev/fd/%d", 63+len(c.files))
	if p.Op != syntax.CmdIn && p.Op != syntax.CmdInTemp {
		c.deeper(func() { c.stmts(p.Stmts, input{true, []string{string(anyMade)}}) })
		return name
	}
	c.files[name] = c.substitute(p.Stmts)
	return name
}

// write notes what a file holds that the text writes.
func (c *checker) write(name string, out []string) {
	if !strings.HasPrefix(name, "/dev/") && len(c.files) < maxWords {
		name = path.Clean(name)
		c.files[name] = add(c.files[name], out...)
	}
}

// file gives what a file holds that the text wrote.
func (c *checker) file(name string) ([]string, bool) {
	if name == "" {
		return nil, false
	}
	texts, ok := c.files[path.Clean(name)]
	return texts, ok
}

// define notes a function. Its body is looked at where it is called, and in the end if it is not.
func (c *checker) define(f *syntax.FuncDecl) {
	if f.Name == nil {
		c.giveUp("a function without a name")
	}
	name := f.Name.Value
	if len(c.funcs) > maxWords {
		c.giveUp("too many functions")
	}
	c.funcs[name] = f.Body
	if bomb(name, f.Body) {
		c.harms("fork bomb: %s starts itself again and again", name)
	}
}

// bomb tells whether a function starts itself beside itself.
func bomb(name string, body *syntax.Stmt) bool {
	calls := func(s *syntax.Stmt) bool {
		found := false
		syntax.Walk(s, func(n syntax.Node) bool {
			if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && literal(call.Args[0].Lit()) == name {
				found = true
			}
			return !found
		})
		return found
	}
	found := false
	syntax.Walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Background && calls(n)
		case *syntax.BinaryCmd:
			found = found || (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && calls(n.X) && calls(n.Y)
		}
		return !found
	})
	return found
}

// function looks at the body of a function with the arguments of a call.
func (c *checker) function(name string, args []string, in input) (out []string) {
	c.called[name] = true
	body := c.funcs[name]
	if slices.Contains(c.calls, body) {
		return []string{string(anyMade)}
	}
	if len(c.calls) >= maxShells {
		c.giveUp("functions nest too deep")
	}
	c.calls = append(c.calls, body)
	defer func() { c.calls = c.calls[:len(c.calls)-1] }()
	return c.with(args, func() []string { return c.stmt(body, in) })
}

// uncalled looks at functions that the text defines for later.
func (c *checker) uncalled() {
	c.argsKnown = false
	for range 4 { // they may call, and define, each other
		for _, name := range slices.Sorted(maps.Keys(c.funcs)) {
			if !c.called[name] {
				c.called[name] = true
				c.stmt(c.funcs[name], input{})
			}
		}
	}
}
