package danger

import (
	"regexp"
	"slices"
	"strings"
)

// interpreter is a program that runs code which is no shell's.
type interpreter struct {
	letters string // its short options that are followed by code; "-": none
	first   bool   // its first operand is code
}

var interpreters = map[string]interpreter{
	"python": {letters: "c"}, "pypy": {letters: "c"}, "ipython": {letters: "c"}, "perl": {letters: "eE"},
	"ruby": {letters: "e"}, "irb": {letters: "e"}, "node": {letters: "ep"}, "nodejs": {letters: "ep"},
	"bun": {letters: "e"}, "deno": {letters: "-"}, "php": {letters: "rBRE"}, "lua": {letters: "e"},
	"luajit": {letters: "e"}, "Rscript": {letters: "e"}, "julia": {letters: "eE"}, "expect": {letters: "c"},
	"awk": {letters: "-", first: true}, "gawk": {letters: "-", first: true}, "tclsh": {letters: "-"},
	"mawk": {letters: "-", first: true}, "nawk": {letters: "-", first: true}, "osascript": {letters: "e"},
	"pwsh": {letters: "c"}, "groovy": {letters: "e"}, "elixir": {letters: "e"}, "guile": {letters: "c"},
}

var longCode = strings.Fields("--eval --print --run --execute -Command -EncodedCommand eval")

// follow looks at the code that a command gives an interpreter: behind an option, in a file that
// the text writes, or by what comes in.
func (p interpreter) follow(c *checker, args []string, in *string) string {
	for i, a := range args[1:] {
		rest := args[i+2:]
		short := len(a) > 1 && a[0] == '-' && a[1] != '-'
		switch {
		case short && strings.Contains(a, "m") && p.letters == "c":
			return hole // a module
		case slices.Contains(longCode, a),
			short && (strings.ContainsAny(a[len(a)-1:], p.letters) || strings.ContainsAny(a[1:2], p.letters)):
			if at := strings.IndexAny(a, p.letters) + 1; short && at < len(a) && len(rest) == 0 {
				rest = []string{a[at:]} // -c'code'
			}
			if len(rest) > 0 {
				c.code(rest[0])
			}
			return hole
		case a == "-" || strings.HasPrefix(a, "-"):
		case p.first:
			c.code(a)
			return hole
		default:
			if text, ok := c.files[c.resolve(a)]; ok {
				c.code(text)
			}
			return hole
		}
	}
	if in != nil {
		c.code(*in)
	} else if !p.first {
		c.reader, _ = programOf(args[0])
	}
	return hole
}

// What code does, by the names of functions in many languages.
var (
	codeRuns = regexp.MustCompile(`(?:\b(?:os\.system|os\.popen|popen\d?|Popen|os\.exec\w+|os\.spawn\w+|` +
		`pty\.spawn|subprocess\.\w+|check_output|check_call|exec|execSync|execFile(?:Sync)?|spawn|spawnSync|` +
		`system|shell_exec|passthru|proc_open|execute|capture2e?|qx)\b\s*\(?|%x)`)
	codeMay   = regexp.MustCompile(`\.(?:call|run)\(`)
	codeTrees = regexp.MustCompile(`\b(?:rmtree|rm_rf|rm_r|remove_tree|rmSync|rmdirSync|rimraf|remove_entry\w*|` +
		`removedirs|removeSync|fs\.rm)\b[ (]*`)
	codeFiles = regexp.MustCompile(`\b(?:unlink|unlinkSync|os\.remove|os\.truncate|File\.delete|` +
		`open|writeFile|writeFileSync|appendFile\w*|file_put_contents)\b[ (]*`)
	codeHides = regexp.MustCompile(`b64decode|fromhex|__import__|\batob\b|\beval\s*\(|\bmarshal\b|decode_base64|` +
		`Buffer\.from|codecs\.decode|getattr\(\s*os|\bexec\s*\(\s*[a-zA-Z_(]`)
	codeEnds  = regexp.MustCompile(`kill\s*\(?\s*(?:9\s*,\s*)?-1|fork\s+while|while[\s(]+(?:1|True|true)?\)?[^\n]*fork`)
	codePipes = regexp.MustCompile(`\|\s*"([^"]+)"|"([^"]+)"\s*\|\s*getline|` + "`([^`$]+)`")
	literal   = regexp.MustCompile(`^[rbfu]?(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|` + "`([^`]*)`)")
)

// code looks at code of any language. Strings that it runs are followed as commands.
func (c *checker) code(text string) {
	c.rules.match(c.v, text)
	if strings.Contains(text, hole) || codeHides.MatchString(text) {
		c.unsure("cannot tell what the code does: %s", text)
	}
	if codeEnds.MatchString(text) {
		c.harms("ends processes, or starts them without end: %s", text)
	}
	for _, m := range codePipes.FindAllStringSubmatch(text, maxMatches) {
		in := hole
		c.quietly(func() { c.script(m[1]+m[2]+m[3], nil) })
		if m[1] != "" {
			c.script(m[1], &in)
		}
	}
	each := func(re *regexp.Regexp, look func(words []string)) {
		for _, at := range re.FindAllStringIndex(text, 4*maxMatches) {
			c.spend()
			look(literals(text[at[1]:]))
		}
	}
	each(codeRuns, c.ran)
	each(codeMay, func(words []string) {
		if words[0] != hole {
			c.ran(words)
		}
	})
	each(codeTrees, func(words []string) {
		if r := c.reach(strings.Join(words[:1], "")); r > small {
			c.harms("code removes %s: %s", r, text)
		}
	})
	each(codeFiles, func(words []string) {
		writes := len(words) < 2 || !strings.HasPrefix(words[1], "r")
		if path := words[0]; path != hole && (!strings.Contains(text, "open") || len(words) > 1 && writes) {
			c.written(path, "code that writes", false)
			if why := removes(c, nil, []string{path}); why != "" {
				c.harms("code %s: %s", why, path)
			}
		}
	})
}

// ran follows the arguments of a function that runs a command.
func (c *checker) ran(words []string) {
	if words[0] == hole {
		c.unsure("cannot tell what the code runs")
		return
	}
	c.subshell(func() string { return c.script(words[0], nil) })
	c.quietly(func() {
		c.subshell(func() string { return c.call(words, nil) })
		c.subshell(func() string { return c.script(strings.Join(words, ""), nil) })
	})
}

// literals are the arguments at the beginning of a text, as far as they are texts. Others are
// holes. There is at least one.
func literals(text string) (words []string) {
	for len(words) < maxMatches {
		text = strings.TrimLeft(text, " \t\n[(,+.{")
		m := literal.FindStringSubmatch(text)
		if m == nil {
			if len(words) == 0 || text != "" && !strings.ContainsRune(")];}\n", rune(text[0])) {
				words = append(words, hole)
			}
			break
		}
		words = append(words, m[1]+m[2]+m[3])
		text = text[len(m[0]):]
	}
	return words
}
