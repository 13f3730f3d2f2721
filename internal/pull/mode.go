package pull

import (
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/pyro-mcp/pyro/internal/diff"
)

// executable reports whether the owner can execute a file. Nothing else of a mode counts.
func executable(mode fs.FileMode) bool { return mode&0o100 != 0 }

// withExecutable returns a mode that lets everyone who can read the file execute it, or nobody.
func withExecutable(mode fs.FileMode, exec bool) fs.FileMode {
	switch {
	case exec == executable(mode):
		return mode
	case exec:
		return mode | (mode&0o444)>>2 | 0o100
	}
	return mode &^ 0o111
}

// newMode returns the mode of a new entry. As in git, it does not depend on the workspace, except
// for the executable bit.
func (p *planner) newMode(exec bool) fs.FileMode {
	if exec {
		return 0o777 &^ p.umask
	}
	return 0o666 &^ p.umask
}

// write adds the operations that write a file. A file of the host keeps its mode and owner, except
// for the executable bits.
func (p *planner) write(o operation, host entry, exec bool) {
	o.do, o.keep = writeFile, host.kind == diff.File
	if !o.keep {
		o.mode = p.newMode(exec)
	}
	p.operations = append(p.operations, o)
	if o.keep && executable(host.mode) != exec {
		p.operations = append(p.operations, operation{path: o.path, do: setMode, mode: withExecutable(host.mode, exec)})
	}
}

// umask returns the umask of this process. The function of the kernel that returns the umask also
// sets it, which would affect other goroutines.
func umask() fs.FileMode {
	const usual = 0o022
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usual
	}
	_, rest, _ := strings.Cut(string(status), "\nUmask:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 8, 9)
	if err != nil {
		return usual
	}
	return fs.FileMode(mask)
}
