// Package demo demonstrates pyro on real machines. [Tour] runs a fixed sequence of steps. [Ollama]
// lets a model call the tool vm_run.
package demo

import (
	"strings"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxShown is the maximum amount of output of a machine or a model that is shown, in bytes.
const maxShown = 4 << 10

// shown makes untrusted text safe for a terminal. It removes control characters and redacts the
// key. The key can be empty.
func shown(text string, key pyro.SecretValue) string {
	text = fault.Printable(strings.ToValidUTF8(text, ""))
	if k := key.Reveal(); k != "" { // must come last, because the key can appear when characters are removed
		text = strings.ReplaceAll(text, k, key.String())
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\n[…]"
	}
	return strings.TrimSpace(text)
}

// unexpected returns the error for a step that had a wrong result.
func unexpected(format string, args ...any) error {
	return fault.Newf(fault.Internal, "unexpected result: "+format, args...)
}
