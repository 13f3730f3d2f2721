// Package lazyregexp provides regular expressions that are compiled when they are first used. Each
// command and each machine starts a process of pyro, which uses few of the expressions. Compiling
// all of them would almost double the processor time of its start.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. The function panics if the
// expression is invalid. Goroutines can call it at the same time.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
