package danger

import (
	"regexp"
	"strings"
)

// interpreter is a program that runs code which is no shell's.
type interpreter struct {
	code   string // the short option that code follows
	valued string // other short options that take a value
	module string // the short option that a module follows
}

var interpreters = map[string]interpreter{
	"python": {"c", "WX", "m"}, "pypy": {"c", "WX", "m"}, "ipython": {"c", "", "m"}, "perl": {"eE", "MmI", ""},
	"ruby": {"e", "rI", ""}, "irb": {"e", "rI", ""}, "node": {"e", "r", ""}, "nodejs": {"e", "r", ""},
	"bun": {"e", "r", ""}, "deno": {}, "php": {"rBRE", "d", ""}, "lua": {"e", "l", ""},
	"luajit": {"e", "l", ""}, "Rscript": {"e", "", ""}, "julia": {"eE", "", ""}, "expect": {"c", "", ""},
	"awk": {"", "Ffv", ""}, "gawk": {"e", "Ffv", ""}, "mawk": {"", "Ffv", ""}, "nawk": {"", "Ffv", ""},
	"tclsh": {}, "osascript": {"e", "", ""}, "pwsh": {}, "groovy": {"e", "", ""}, "elixir": {"e", "", ""},
	"guile": {"c", "", ""},
}

// follow looks at the code that a command gives an interpreter: behind an option, as an operand,
// in a file that the text writes, or as its input.
func (i interpreter) follow(c *checker, args []string, in *string) string {
	given, rest := parse(args[1:], i.code+i.valued+i.module, true)
	if i.module != "" && given.has(i.module) {
		return hole
	}
	code := given.value(strings.Join(strings.Split(i.code, ""), " ") + " --eval --print --run --execute")
	if len(rest) > 1 && isIn("eval run", rest[0]) {
		rest = rest[1:]
	}
	switch {
	case code != "":
		c.code(code)
	case len(rest) > 0 && rest[0] != "-":
		if text, ok := c.content(rest[0], in); ok {
			c.code(text)
		} else if strings.ContainsAny(rest[0], "({|`") {
			c.code(rest[0])
		}
	case in != nil:
		c.code(*in)
	default:
		c.reader, _ = programOf(args[0])
	}
	return hole
}

// What code does, by the names of functions in many languages.
var (
	codeHides = regexp.MustCompile(`b64decode|fromhex|__import__|\batob\b|\beval\s*\(|\bmarshal\b|decode_base64|` +
		`Buffer\.from|codecs\.decode|getattr\(\s*os|\bexec\s*\(\s*[a-zA-Z_(]`)
	codeEnds  = regexp.MustCompile(`kill\s*\(?\s*(?:9\s*,\s*)?-1|fork\s+while|while[\s(]+(?:1|True|true)?\)?[^\n]*fork`)
	codePipes = regexp.MustCompile(`\|\s*"([^"]+)"|"([^"]+)"\s*\|\s*getline|` + "`([^`$]+)`")
	literal   = regexp.MustCompile(`^[rbfu]?(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|` + "`([^`]*)`)")
)

// codeCalls are functions that do harm, with what is done to their arguments. A group marks the
// place of the arguments if they are not behind the name.
var codeCalls = []struct {
	name *regexp.Regexp
	look func(c *checker, words []string)
}{
	{regexp.MustCompile(`(?:\b(?:os\.system|os\.popen|popen\d?|Popen|os\.exec\w+|os\.spawn\w+|pty\.spawn|` +
		`subprocess\.\w+|check_output|check_call|exec|execSync|execFile(?:Sync)?|spawn|spawnSync|system|` +
		`shell_exec|passthru|proc_open|execute|capture2e?|qx)\b\s*\(?|%x)`), (*checker).ran},
	{regexp.MustCompile(`\.(?:call|run)\(`), (*checker).mayRun},
	{regexp.MustCompile(`\b(?:rmtree|rm_rf|rm_r|remove_tree|rmSync|rmdirSync|rimraf|remove_entry\w*|` +
		`removedirs|removeSync|fs\.rm)\b[ (]*`), (*checker).removed},
	{regexp.MustCompile(`\b(?:unlink|unlinkSync|os\.remove|os\.truncate|File\.delete|writeFile|writeFileSync|` +
		`appendFile\w*|file_put_contents)\b[ (]*|\bPath\(()[^()]*\)\.(?:unlink|rmdir|rename|write_)`), (*checker).changed},
	{regexp.MustCompile(`\bopen\b[ (]*`), (*checker).opened},
}

// code looks at code of any language. Strings that it runs are followed as commands.
func (c *checker) code(text string) {
	c.rules.match(c.v, text)
	c.spend(len(text) / 64)
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
	for _, call := range codeCalls {
		for _, at := range call.name.FindAllStringSubmatchIndex(text, 4*maxMatches) {
			c.spend(1)
			end := at[1]
			if len(at) > 2 && at[2] >= 0 {
				end = at[2]
			}
			call.look(c, literals(text[end:]))
		}
	}
}

// ran follows the arguments of a function that runs a command.
func (c *checker) ran(words []string) {
	if words[0] == hole {
		c.unsure("cannot tell what the code runs")
		return
	}
	c.apart(words[0], nil)
	c.quietly(func() {
		c.subshell(func() string { return c.call(words, nil) })
		c.apart(strings.Join(words, ""), nil)
	})
}

// mayRun is ran for functions whose name is used for other things too.
func (c *checker) mayRun(words []string) {
	if words[0] != hole {
		c.ran(words)
	}
}

func (c *checker) removed(words []string) { c.harm("rimraf", []string{"code removes", words[0]}) }

func (c *checker) changed(words []string) {
	if words[0] != hole {
		c.written(words[0], "code that writes", false)
		c.harm("unlink", []string{"code removes", words[0]})
	}
}

// opened is changed for files that are not only read.
func (c *checker) opened(words []string) {
	if len(words) > 1 && !strings.HasPrefix(words[1], "r") {
		c.changed(words)
	}
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
