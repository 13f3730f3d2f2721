package danger

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits on the value of PTY_MCP_DANGEROUS_PATTERNS.
const (
	maxPatterns = 64   // maximum number of patterns
	maxPattern  = 1024 // maximum size of a pattern, in bytes
	maxProgram  = 1500 // maximum number of compiled instructions in all patterns: [a-z]{1000} is short but slow
)

// pattern is a regular expression that the user provides.
type pattern = *regexp.Regexp

// New parses the value of PTY_MCP_DANGEROUS_PATTERNS: regular expressions (RE2) separated by ";".
// They replace the built-in rules. Each pattern is matched against the whole command, and against
// the expanded words of each simple command in it. If the value is blank, the built-in rules apply.
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
			return nil, (&fault.Error{Op: op, Subject: p, Kind: fault.Invalid, Err: err}).
				WithHint("fix the pattern in PTY_MCP_DANGEROUS_PATTERNS (RE2, \";\" between patterns)")
		}
		if total += size(p); total > maxProgram {
			return nil, fault.New(fault.Invalid, op, p, "the pattern is too large")
		}
		r.patterns = append(r.patterns, re)
	}
	if len(r.patterns) == 0 {
		return nil, fault.New(fault.Invalid, op, patterns, "no pattern between the \";\"").
			WithHint("unset PTY_MCP_DANGEROUS_PATTERNS for the built-in rules")
	}
	return r, nil
}

// size returns the number of instructions that a valid pattern compiles to.
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
