package danger

import (
	"regexp"
	"slices"
	"strings"
)

// interpreter is a program that runs code which is no shell's.
type interpreter struct {
	letters string   // its short options that are followed by code
	long    []string // its long ones
	first   bool     // its first operand is code
	ends    string   // its short options after which nothing is code
}

var interpreters = map[string]interpreter{
	"python": {letters: "c", ends: "m"}, "pypy": {letters: "c", ends: "m"}, "ipython": {letters: "c", ends: "m"}, "perl": {letters: "eE"}, "ruby": {letters: "e"}, "irb": {}, "jruby": {letters: "e"},
	"node": {letters: "ep", long: []string{"--eval", "--print"}}, "nodejs": {letters: "ep", long: []string{"--eval", "--print"}}, "bun": {letters: "e", long: []string{"--eval"}},
	"deno": {long: []string{"eval"}}, "php": {letters: "rBRE", long: []string{"--run"}}, "lua": {letters: "e"}, "luajit": {letters: "e"}, "Rscript": {letters: "e"}, "julia": {letters: "eE", long: []string{"--eval"}},
	"awk": {first: true}, "gawk": {first: true}, "mawk": {first: true}, "nawk": {first: true}, "tclsh": {}, "expect": {letters: "c"}, "groovy": {letters: "e"}, "elixir": {letters: "e", long: []string{"--eval"}},
	"pwsh": {letters: "c", long: []string{"-Command", "-EncodedCommand", "-enc"}}, "osascript": {letters: "e"}, "guile": {letters: "c"}, "emacs": {long: []string{"--eval", "-eval"}},
	"vim": {letters: "c", long: []string{"--cmd"}}, "vi": {letters: "c"}, "nvim": {letters: "c", long: []string{"--cmd"}}, "ex": {letters: "c"}, "ed": {},
}

// look looks at the code that a command gives an interpreter: after an option, by a pipe, in a file that the same text writes.
func (p interpreter) look(c *checker, args []string, in input) []string {
	rest := args[1:]
	script, given := "", false
	for i := 0; i < len(rest); i++ {
		a := known(rest[i])
		switch code := rest[min(i+1, len(rest)):]; {
		case slices.Contains(p.long, a):
			given = true
			c.give(p, code)
			i++
			continue
		case len(a) > 2 && a[:2] == "--" && slices.ContainsFunc(p.long, func(l string) bool { return strings.HasPrefix(a, l+"=") }):
			given = true
			c.give(p, []string{a[strings.IndexByte(a, '=')+1:]})
			continue
		case len(a) > 1 && a[0] == '-' && a[1] != '-':
			if p.ends != "" && strings.ContainsAny(a[:2], p.ends) {
				return unknown
			}
			if at := strings.IndexAny(a[1:], p.letters) + 1; at > 0 {
				given = true
				if at < len(a)-1 && strings.Trim(a[at+1:], p.letters) != "" {
					code = append([]string{a[at+1:]}, code...)
				}
				c.give(p, code)
			}
			continue
		case strings.HasPrefix(a, "--"):
			continue
		}
		if script == "" {
			script = rest[i]
			if p.first && !given && !slices.Contains(rest[:i], "-f") {
				given = true
				c.give(p, rest[i:])
			}
		}
	}
	switch texts, made := c.file(script); {
	case given:
	case made:
		c.reads(p, texts, args)
	case script == "" || script == "-" || script == "/dev/stdin":
		if in.piped {
			c.reads(p, in.values, args)
		}
	}
	return unknown
}

// give looks at code and its arguments.
func (c *checker) give(p interpreter, code []string) {
	if len(code) == 0 {
		return
	}
	if opaque(code[0]) {
		c.found("code for an interpreter that is not known before: %s", code[0])
	}
	c.code(p, code[0], code[1:])
}

func (c *checker) reads(p interpreter, texts, args []string) {
	for _, t := range texts {
		if opaque(strings.TrimSpace(t)) {
			c.found("an interpreter runs text that is not known before: %s", strings.Join(args, " "))
			continue
		}
		c.code(p, t, nil)
	}
}

var (
	quoted = regexp.MustCompile(`'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|` + "`((?:[^`\\\\]|\\\\.)*)`" + `|\b(?:q|qq|qx|qw|%w|%x)\s*[({\[/|]([^)}\]/|]*)[)}\]/|]`)
	spawns = regexp.MustCompile(`\b(?:system|popen\w*|exec[lvpe]*|execSync|execFile\w*|spawn\w*|subprocess|check_output|check_call|Popen|getoutput|getstatusoutput|child_process|shell_exec|passthru|proc_open|pcntl_exec|posix_spawn\w*|qx|execute|Open3|Command|ProcessBuilder|doShellScript)\b|do shell script|^\s*:?!`)
	wipes  = regexp.MustCompile(`\b(?:rmtree|rm_rf|rm_r|rm|rmSync|remove_tree|rmdir\w*|removedirs|removeSync|rimraf|remove|removeAll|remove_dir_all|unlink\w*|File\.delete|FileUtils|emptyDir\w*|truncate\w*|rename\w*|move|delete)\b`)
	writes = regexp.MustCompile(`['"][rwabt+]*[wa+][bt+]*['"]|\bwrite\w*\b|\btruncate|>`)
	hides  = regexp.MustCompile(`(?:^|[^.\w])(?:eval|exec|execfile|compile|__import__|Function|instance_eval|class_eval|loadstring|load|assert)\s*\(|\b(?:runpy|marshal|vm\.run\w+|EncodedCommand|-enc)\b`)
	veils  = regexp.MustCompile(`\b(?:chr|getattr|fromCharCode|atob|b64decode|base64_decode|decode64|decode_base64|unhexlify|fromhex|a2b_\w+|unpack|globals|importlib|str_rot13|rot13|urlopen|urllib|requests|codecs)\b|\[::-1\]|\breverse\b|Buffer\.from`)
	ends   = regexp.MustCompile(`\bkill(?:pg)?\s*\(?\s*-1\b|\bkill\s*\(?\s*['"]?(?:KILL|TERM|9|-9|15)['"]?\s*,\s*-1\b|(?s:\bfork\b.{0,40}\bwhile\b.{0,40}\bfork\b)|(?s:\b(?:while|loop|for)\b.{0,60}\bfork\b\s*\(?)`)
)

// maxLiterals bounds the texts in quotes that are looked at in one piece of code.
const maxLiterals = 48

// code looks at the code of a program that is no shell: at what its quoted texts would do as commands and as paths, and whether it hides what it does.
func (c *checker) code(p interpreter, text string, args []string) {
	c.spend(10 + len(text)/16)
	if !c.muted {
		c.rules.match(c.verdict, text)
	}
	var literals []string
	for _, m := range quoted.FindAllStringSubmatch(text, maxLiterals) {
		for _, group := range m[1:] {
			if group != "" {
				literals = append(literals, escaped(group, false))
			}
		}
	}
	literals = append(literals, args[:min(len(args), maxLiterals)]...)
	runs, removes := spawns.MatchString(text), wipes.MatchString(text)
	switch {
	case hides.MatchString(text) && !p.first, veils.MatchString(text) && (runs || removes):
		c.found("code for an interpreter that hides what it runs: %s", text)
	case ends.MatchString(text):
		c.harms("code for an interpreter that ends all processes, or fills the system with them: %s", text)
	}
	c.literals(literals, runs)
	for _, l := range literals {
		if removes && strings.HasPrefix(l, "/") && c.spread(l) != "" || removes && strings.HasPrefix(l, "~") && c.spread(l) != "" || removes && strings.Contains(text, "tree") && strings.HasPrefix(l, "/") {
			c.harms("code for an interpreter that removes %s: %s", l, text)
		}
		if removes || writes.MatchString(text) {
			c.written(l, "code for an interpreter:")
		}
	}
	if at := strings.Index(text, "!"); at >= 0 && (p.letters == "c" || p.letters == "" && !p.first) && p.ends == "" { // :!command of vim
		c.quietly(func() { c.shell(text[at+1:], input{}) })
	}
}

// literals looks at quoted texts as commands: each, and all together, as the words or the parts of one.
func (c *checker) literals(list []string, runs bool) {
	if len(list) == 0 {
		return
	}
	tries := []string{quote(list), strings.Join(list, " ")}
	for i := range min(len(list), maxLiterals/3) {
		tries = append(tries, strings.Join(list[i:], ""))
	}
	if runs {
		tries = append(tries, list...)
	}
	for _, t := range tries {
		if strings.ContainsAny(t, " \t\n/;&|") || runs {
			c.quietly(func() { c.shell(t, input{}) })
		}
	}
	if runs { // ["rm", "-rf", x] among other texts
		for i := range list {
			if h := programName(strings.TrimPrefix(list[i], "/bin/")); harmful[h].what != nil {
				c.quietly(func() { c.command(list[i:], input{}) })
			}
		}
	}
}
