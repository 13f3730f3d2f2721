// Package demo shows pyro at work on real machines: [Tour] by itself, [Ollama] by a model that is given vm_run as a tool.
package demo

import (
	"strings"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxShown bounds what is shown of what a machine or a model has to say, in bytes.
const maxShown = 4 << 10

// shown is a text as it can be put on a terminal: whoever wrote it can't do more there than be read, and can't have the key be read, which may be empty.
func shown(text string, key pyro.SecretValue) string {
	text = fault.Printable(strings.ToValidUTF8(text, ""))
	if k := key.Reveal(); k != "" { // after what could have been hidden in it is gone
		text = strings.ReplaceAll(text, k, key.String())
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\n[…]"
	}
	return strings.TrimSpace(text)
}

// unexpected says that a step did not do what it says.
func unexpected(format string, args ...any) error {
	return fault.Newf(fault.Internal, "it did not do what it says: "+format, args...)
}
