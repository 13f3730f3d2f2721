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

// pattern is a regular expression of a user's.
type pattern = *regexp.Regexp

// New makes rules of the value of PTY_MCP_DANGEROUS_PATTERNS: regular expressions (RE2) with ";"
// between them, which replace the built-in rules. They are matched against the whole command, and
// against each simple command in it as plain words.
func New(patterns string) (*Rules, error) {
	if strings.TrimSpace(patterns) == "" {
		return &Rules{}, nil
	}
	const op = "read dangerous patterns"
	r := &Rules{}
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
		r.patterns = append(r.patterns, re)
	}
	if len(r.patterns) == 0 {
		return nil, fault.New(fault.Invalid, op, patterns, "no pattern between the \";\"").WithHint("unset PTY_MCP_DANGEROUS_PATTERNS for the built-in rules")
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
