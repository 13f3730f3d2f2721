package archive

import (
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxText limits the total length of names and link targets, in bytes, because they stay in memory.
const maxText = 256 << 20

func tooMuchText() error {
	return fault.Newf(fault.Exhausted, "its names and links exceed %d MiB", maxText>>20)
}

// splitName splits an entry's name into its components. The name of the root has no components.
// splitName rejects invalid names and names outside of the tree.
func splitName(name string) ([]string, error) {
	switch {
	case strings.HasPrefix(name, "/"):
		return nil, refused("its name is absolute")
	case len(name) > maxPath: // The name of a directory ends in a slash.
		return nil, refused("its name is longer than %d bytes", maxPath-1)
	case strings.Contains(name, "\x00"):
		return nil, refused("its name contains NUL")
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return nil, refused("its name contains ..")
		case len(part) > 255:
			return nil, refused("its name has a component longer than 255 bytes")
		case part != "" && part != ".":
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// checkText rejects invalid link targets.
func checkText(text string) error {
	switch {
	case text == "":
		return refused("it is a link without a target")
	case len(text) >= maxPath:
		return refused("its link target is longer than %d bytes", maxPath-1)
	case strings.Contains(text, "\x00"):
		return refused("its link target contains NUL")
	}
	return nil
}

func refused(format string, args ...any) *fault.Error {
	return &fault.Error{Kind: fault.Invalid, Err: fmt.Errorf(format, args...)}
}

// shortened shortens a path for an error. The result contains the end of the path.
func shortened(path string) string {
	const most = 400
	if len(path) > most {
		return "…" + path[len(path)-most:]
	}
	return path
}
