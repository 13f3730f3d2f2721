package danger

import (
	"slices"
	"strings"
)

// shells are programs that read commands as this package does.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true, "mksh": true, "rbash": true, "fish": true, "hush": true,
	"yash": true, "pdksh": true, "lksh": true, "csh": true, "tcsh": true, "at": true, "batch": true}

// codeOption tells whether an argument is an option, or a cluster of them, that is followed by code: -c, -lc.
func codeOption(a string) bool {
	return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.Contains(a, "c") || a == "--command"
}

// shell looks at sh, bash and the like: at the text after -c, at what comes in by a pipe, and at scripts that the same text makes.
func shell(c *checker, args []string, in input) []string {
	rest := args[1:]
	code := false
	for len(rest) > 0 {
		a := known(rest[0])
		if rest[0] != "" && a == "" && !code && in.values == nil {
			c.maybeCode(rest[1:], in)
		}
		if a == "--" || a == "-" {
			rest = rest[1:]
			break
		}
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			break
		}
		if c.rcFile(&rest) {
			continue
		}
		code = code || codeOption(a)
		rest = rest[1:]
		if a[1] != '-' && (strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O")) && len(rest) > 0 {
			rest = rest[1:] // -o pipefail
		}
	}
	switch {
	case code && len(rest) > 0:
		before := c.zero
		defer func() { c.zero = before }()
		if c.zero = args[0]; len(rest) > 1 {
			c.zero = rest[1]
		}
		return c.texts([]string{rest[0]}, rest[min(2, len(rest)):], in, args[0]+" -c")
	case code:
		return []string{""}
	case len(rest) == 0 || rest[0] == "/dev/stdin" || rest[0] == "/dev/fd/0" || slices.Contains(args, "-s"):
		if !in.piped {
			return unknown // from a person or a file
		}
		return c.texts(in.values, rest, input{}, "what comes to "+args[0])
	}
	return c.sourced(rest[0], rest[1:], in)
}

// rcFile takes --rcfile FILE and --init-file FILE, which bash runs.
func (c *checker) rcFile(rest *[]string) bool {
	name, file, inOne := strings.Cut((*rest)[0], "=")
	if name != "--rcfile" && name != "--init-file" {
		return false
	}
	*rest = (*rest)[1:]
	if !inOne && len(*rest) > 0 {
		file, *rest = (*rest)[0], (*rest)[1:]
	}
	c.sourced(file, nil, input{})
	return true
}

// maybeCode looks at what would be code if an option that is not known were -c.
func (c *checker) maybeCode(rest []string, in input) {
	if len(rest) > 0 {
		c.quietly(func() { c.texts(rest[:1], nil, in, "sh -c") })
	}
}

// sourced looks at a file that a shell reads, where the same text makes it.
func (c *checker) sourced(name string, args []string, in input) []string {
	if texts, ok := c.file(name); ok {
		return c.texts(texts, args, in, name)
	}
	if name == "/dev/stdin" && in.piped {
		return c.texts(in.values, args, input{}, "what comes to "+name)
	}
	return unknown
}

func eval(c *checker, args []string, in input) []string {
	rest := args[1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	text := strings.Join(rest, " ")
	return c.texts([]string{text}, c.positional, in, "eval "+text)
}

func source(c *checker, args []string, in input) []string {
	if len(args) < 2 {
		return []string{""}
	}
	rest := c.positional
	if len(args) > 2 {
		rest = args[2:]
	}
	return c.sourced(args[1], rest, in)
}

func trapped(c *checker, args []string, _ input) []string {
	rest := args[1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) > 1 && rest[0] != "-" && rest[0] != "" {
		c.texts(rest[:1], nil, input{}, "trap")
	}
	return []string{""}
}
