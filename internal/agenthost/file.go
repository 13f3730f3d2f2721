package agenthost

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// The scopes of a configuration file.
const (
	ScopeUser    = "user"    // applies to all projects of the user.
	ScopeLocal   = "local"   // applies to one project; the file belongs to the user.
	ScopeProject = "project" // applies to one project; the file belongs to the project.
)

// File is a configuration file of a host.
type File struct {
	Path  string
	Scope string
	table []string // keys on the path to the table of servers
}

// Home describes where a user's configuration files are.
type Home struct {
	Folder  string // the user's home directory
	Config  string // $XDG_CONFIG_HOME, usually Folder/.config
	Work    string // working directory of the host
	Project string // root of the git checkout that contains Work, or ""
	Getenv  func(string) string
}

func (h Home) variable(name, byDefault string) string {
	if value := h.Getenv(name); value != "" {
		return value
	}
	return byDefault
}

// each returns the user's file, and the files that the project can contain. All have the same
// format.
func (h Home) each(table []string, own, inProject string) []File {
	files := []File{{own, ScopeUser, table}}
	for _, folder := range h.above() {
		if path := filepath.Join(folder, filepath.FromSlash(inProject)); path != own {
			files = append(files, File{path, ScopeProject, table})
		}
	}
	return files
}

// above returns the folders from Work up to the root of the project.
func (h Home) above() []string {
	folders := []string{h.Work}
	for at := h.Work; h.Project != "" && at != h.Project && at != filepath.Dir(at); {
		at = filepath.Dir(at)
		folders = append(folders, at)
	}
	return folders
}

func claudeCodeFiles(h Home) []File {
	own := filepath.Join(h.variable("CLAUDE_CONFIG_DIR", h.Folder), ".claude.json")
	files := h.each([]string{"mcpServers"}, own, ".mcp.json")
	root := h.Project
	if root == "" {
		root = h.Work
	}
	return append(files, File{own, ScopeLocal, []string{"projects", root, "mcpServers"}})
}

func opencodeFiles(h Home) (files []File) {
	table := []string{"mcp"}
	for _, name := range []string{"opencode.json", "opencode.jsonc", "config.json"} {
		files = append(files, File{filepath.Join(h.Config, "opencode", name), ScopeUser, table})
	}
	if own := h.Getenv("OPENCODE_CONFIG"); own != "" {
		files = append(files, File{own, ScopeUser, table})
	}
	for _, folder := range h.above() {
		for _, name := range []string{"opencode.json", "opencode.jsonc"} {
			files = append(files, File{filepath.Join(folder, name), ScopeProject, table})
		}
	}
	return files
}

// maxFile is the maximum size of a configuration file, in bytes. Claude Code's file contains the
// history of all projects.
const maxFile = 32 << 20

// readFile reads a configuration file. It returns nil if the file does not exist.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK, because opening a FIFO would block
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, "read", path)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fault.New(fault.Precondition, "read", path, "not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fault.Wrap(err, "read", path)
	}
	if len(text) > maxFile {
		return nil, fault.New(fault.Exhausted, "read", path, "it is larger than %d bytes", maxFile)
	}
	return text, nil
}
