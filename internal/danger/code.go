package danger

import (
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// interpreters run code that is not written in a shell language.
var interpreters = strings.Fields("python pypy ipython perl ruby irb node nodejs bun deno php lua " +
	"luajit Rscript julia expect awk gawk mawk nawk tclsh osascript pwsh groovy elixir guile")

var (
	codeOption = lazyregexp.New(`^-[a-zA-Z0-9]*[ceErBR]$|^--?(?:eval|print|run|execute)$`)
	codeBegin  = lazyregexp.New("[({|` ]")
)

// interpreter checks the code that an interpreter reads from its arguments, from a file or from
// standard input.
func (c *checker) interpreter(name string, args []string) {
	operands := false
	for i, a := range args {
		text, isFile := c.content(a)
		isFile = isFile && !operands
		isCode := i > 0 && codeOption().MatchString(args[i-1])
		operands = operands || a[:min(1, len(a))] != "-" || a == "-m"
		if isFile {
			c.code(text)
			return
		} else if isCode || codeBegin().MatchString(a) {
			c.code(a)
		}
	}
	switch {
	case operands:
	case c.sh.in != nil:
		c.code(*c.sh.in)
	default:
		c.reader = name
	}
}

// Names of functions and idioms in many languages. Each pattern is for one kind of harm.
var (
	codeHides = lazyregexp.New(`b64decode|fromhex|__import__|\batob\b|\beval\s*\(|` +
		`\bmarshal\b|decode_base64|Buffer\.from|codecs\.decode|getattr\(\s*os|` +
		`\bexec\s*\(\s*[a-zA-Z_(]`)
	codeRuns = lazyregexp.New(`(?:\b(?:os\.system|popen\d?|Popen|os\.exec\w+|os\.spawn\w+|` +
		`pty\.spawn|subprocess\.\w+|check_output|check_call|exec|execSync|execFile(?:Sync)?|` +
		`spawn|spawnSync|system|shell_exec|passthru|proc_open|execute|capture2e?|qx)\b\s*\(?|` +
		`%x[({\[]|\.(?:call|run)\(|\|\s*"|"\s*\|)|` + "`")
	codeRemoves = lazyregexp.New(`\b(?:rmtree|rm_rf|rm_r|remove_tree|rmSync|rmdirSync|` +
		`rimraf|remove_entry\w*|removedirs|removeSync|fs\.rm)\b[ (]*`)
	// The last character of the match shows whether the code contains the path.
	codeUnlinks = lazyregexp.New(`\b(?:unlink|unlinkSync|os\.remove|File\.delete)\b[ (*]*(?:glob\b[ (]*)?(.?)`)
	codeWrites  = lazyregexp.New(`\b(?:unlink|unlinkSync|os\.remove|os\.truncate|File\.delete|` +
		`writeFile|writeFileSync|appendFile\w*|file_put_contents|write_\w+)\b|` +
		`\.(?:rmdir|rename)\b|\bopen\b[^\n]*,\s*['"][^r'"]`)
	codeText = lazyregexp.New(`'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|` + "`([^`]*)`" +
		`|%x[({\[]([^)}\]]*)`)
)

// code checks code in any language. If the code runs commands or changes files, each of its strings
// counts as a command or a path.
func (c *checker) code(text string) {
	c.rules.match(c.v, text)
	c.countSteps(len(text) / 64)
	if strings.Contains(text, unknown) || codeHides().MatchString(text) {
		c.v.add(false, "cannot tell what the code does: %s", text)
	}
	runs := codeRuns().MatchString(text)
	removes := codeRemoves().FindStringIndex(text)
	writes := codeWrites().MatchString(text)
	if removes != nil && !strings.ContainsAny(text[removes[1]:min(len(text), removes[1]+1)], "'\"`[") {
		c.harm("code removes an unknown path: %s", text)
	}
	for _, m := range codeUnlinks().FindAllStringSubmatch(text, maxMatches) {
		if !isIn("' \" ` )", m[1]) { // a method such as Path("x").unlink() has no argument
			c.v.add(false, "code removes an unknown file: %s", text)
		}
	}
	var words []string
	for _, m := range codeText().FindAllStringSubmatch(text, 4*maxMatches) {
		word := m[1] + m[2] + m[3] + m[4]
		if words = append(words, word); removes != nil {
			c.applyRules("rimraf", []string{"code removes", word})
		}
		if writes {
			c.write(word, "code that writes", false)
			c.applyRules("unlink", []string{"code removes", word})
		}
	}
	if !runs {
		return
	}
	if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return isIn("sh bash", w) }) {
		c.unclear(text)
	}
	words = append(words, strings.Join(words, " "), strings.Join(words, ""))
	for _, command := range words {
		c.onlyHarmful(func() { c.child(command) })
	}
}
