package archive

import (
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxText bounds the names and links of an archive, which are kept in memory.
const maxText = 256 << 20

func tooMuchText() error {
	return fault.Newf(fault.Exhausted, "the names and links have more than %d MiB", maxText>>20)
}

// cleaned gives the parts of an entry's name, none for the top, and refuses names that lead out or that no file could have.
func cleaned(name string) ([]string, error) {
	switch {
	case strings.HasPrefix(name, "/"):
		return nil, refused("its name is absolute")
	case len(name) > maxPath: // a folder's has a slash behind it
		return nil, refused("its name has more than %d bytes", maxPath-1)
	case strings.Contains(name, "\x00"):
		return nil, refused("its name has a zero in it")
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return nil, refused("its name climbs")
		case len(part) > 255:
			return nil, refused("its name has a part of more than 255 bytes")
		case part != "" && part != ".":
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// checkText refuses what a symbolic link can't hold.
func checkText(text string) error {
	switch {
	case text == "":
		return refused("it is a link to nothing")
	case len(text) >= maxPath:
		return refused("it is a link of more than %d bytes", maxPath-1)
	case strings.Contains(text, "\x00"):
		return refused("it is a link with a zero in it")
	}
	return nil
}

func refused(format string, args ...any) *fault.Error {
	return &fault.Error{Kind: fault.Invalid, Err: fmt.Errorf(format, args...)}
}

// ending is the end of a path, as much of it as an error quotes.
func ending(path string) string {
	const most = 400
	if len(path) > most {
		return "…" + path[len(path)-most:]
	}
	return path
}
