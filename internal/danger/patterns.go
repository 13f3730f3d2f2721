package danger

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Bounds of PTY_MCP_DANGEROUS_PATTERNS.
const (
	maxPatterns = 64   // patterns
	maxPattern  = 1024 // bytes of each
	maxProgram  = 1500 // instructions that all compile to: [a-z]{1000} is short, and slow
)

// forced are the options of rm that make it recursive and unasked, in the forms that people write.
const forced = `\brm\s+(?:-[a-zA-Z-]+\s+)*(?:-[a-zA-Z]*[rR][a-zA-Z]*f[a-zA-Z]*|-[a-zA-Z]*f[a-zA-Z]*[rR][a-zA-Z]*|(?:-[rR]|--recursive)\s+(?:-f|--force)|(?:-f|--force)\s+(?:-[rR]|--recursive))(?:\s+-[a-zA-Z-]+)*\s+`

// pattern is a regular expression, and what people are told of it.
type pattern struct {
	*regexp.Regexp
	told string
}

// defaults are the seven patterns that hold where a user gives none.
var defaults = []pattern{
	{regexp.MustCompile(forced + `/+(?:[\s;&|)*]|$)`), "removes / recursively: rm -rf /"},
	{regexp.MustCompile(forced + `/+\w`), "removes recursively by an absolute path: rm -rf /name"},
	{regexp.MustCompile(`\bmkfs\b`), "makes a file system: mkfs"},
	{regexp.MustCompile(`\bdd\b[^\n;|&]*\bif=/dev/zero\b`), "reads /dev/zero: dd if=/dev/zero"},
	{regexp.MustCompile(`\bshutdown\b`), "stops the system: shutdown"},
	{regexp.MustCompile(`\breboot\b`), "stops the system: reboot"},
	{regexp.MustCompile(`\bpoweroff\b`), "stops the system: poweroff"},
}

// New makes rules of the value of PTY_MCP_DANGEROUS_PATTERNS: regular expressions (RE2) with ";" between them, which replace the seven default patterns and the
// built-in rules. Without any, those hold.
func New(patterns string) (*Rules, error) {
	if strings.TrimSpace(patterns) == "" {
		return &Rules{patterns: defaults}, nil
	}
	const op = "read dangerous patterns"
	r := &Rules{own: true}
	total := 0
	for _, p := range strings.Split(patterns, ";") {
		p = strings.TrimSpace(p)
		switch {
		case p == "":
			continue
		case len(p) > maxPattern:
			return nil, fault.New(fault.Invalid, op, p[:32]+"…", "longer than %d bytes", maxPattern)
		case len(r.patterns) == maxPatterns:
			return nil, fault.New(fault.Invalid, op, "", "more than %d patterns", maxPatterns)
		}
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, (&fault.Error{Op: op, Subject: p, Kind: fault.Invalid, Err: err}).WithHint("mend the pattern in PTY_MCP_DANGEROUS_PATTERNS (RE2, \";\" between patterns)")
		}
		if total += size(p); total > maxProgram {
			return nil, fault.New(fault.Invalid, op, p, "too large a pattern")
		}
		r.patterns = append(r.patterns, pattern{re, "matches " + p})
	}
	if len(r.patterns) == 0 {
		return nil, fault.New(fault.Invalid, op, patterns, "no pattern between the \";\"").WithHint("unset PTY_MCP_DANGEROUS_PATTERNS for the default patterns")
	}
	return r, nil
}

// size counts the instructions of a pattern that compiles.
func size(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}
