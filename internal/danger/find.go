package danger

import (
	"slices"
	"strings"
)

// find looks at what find runs on what it finds, and at -delete. It prints names below where it begins.
func find(c *checker, args []string, _ input) []string {
	rest := args[1:]
	for len(rest) > 0 && (slices.Contains([]string{"-H", "-L", "-P"}, rest[0]) || strings.HasPrefix(rest[0], "-O") || rest[0] == "-D") {
		rest = rest[1:]
	}
	n := slices.IndexFunc(rest, func(a string) bool { return a != "" && (a[0] == '-' || a[0] == '(' || a[0] == '!') })
	if n < 0 {
		n = len(rest)
	}
	starts, tests := rest[:n], rest[n:]
	if len(starts) == 0 {
		starts = []string{"."}
	}
	for i := 0; i < len(tests); i++ {
		switch tests[i] {
		case "-delete":
			c.deletes(starts, tests)
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(tests) && tests[end] != ";" && !(tests[end] == "+" && tests[end-1] == "{}") {
				end++
			}
			for _, start := range starts {
				c.command(replaced(tests[i+1:end], "{}", below(start)), input{})
			}
			i = end
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			if i+1 < len(tests) {
				c.written(tests[i+1], "find "+tests[i])
			}
		}
	}
	var out string
	for _, start := range starts {
		out += below(start) + "\n"
	}
	return []string{out}
}

// below is any name in a folder.
func below(start string) string {
	if start == "." {
		return "./" + string(anyMade)
	}
	return strings.TrimRight(start, "/") + "/" + string(anyMade)
}

func (c *checker) deletes(starts, tests []string) {
	some := slices.ContainsFunc(tests, func(t string) bool {
		return slices.Contains([]string{"-name", "-iname", "-path", "-regex", "-empty", "-newer", "-mtime", "-mmin"}, t)
	})
	for _, start := range starts {
		wide := c.spread(start)
		if wide == "" || some && !strings.HasPrefix(start, "/") {
			continue
		}
		if start == "." || start == "./" { // as rm -r * is
			c.harms("find removes all below the working folder")
			continue
		}
		c.harms("find removes; %s", wide)
	}
}
