package agenthost

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// The scopes of a configuration.
const (
	ScopeUser    = "user"    // all projects of the user
	ScopeLocal   = "local"   // one project, in a file of the user
	ScopeProject = "project" // one project, in a file of the project
)

// File is one that a host reads its servers from.
type File struct {
	Path  string
	Scope string
	table []string // the keys below which it has them by name
}

// Home says whose configuration is looked at, and from where.
type Home struct {
	Folder  string // the user's
	Config  string // where programs keep their configuration, mostly Folder/.config
	Work    string // where the host would be started
	Project string // the git checkout that Work is in, or ""
	Getenv  func(string) string
}

func (h Home) variable(name, byDefault string) string {
	if value := h.Getenv(name); value != "" {
		return value
	}
	return byDefault
}

// each gives a file of the user's, and one of the project's of the same form.
func (h Home) each(table []string, own, inProject string) []File {
	files := []File{{own, ScopeUser, table}}
	for _, folder := range h.above() {
		if path := filepath.Join(folder, filepath.FromSlash(inProject)); path != own {
			files = append(files, File{path, ScopeProject, table})
		}
	}
	return files
}

// above are the folders from Work up to the root of its project.
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

// maxFile bounds what is read of a configuration. Claude Code's holds a history of all projects.
const maxFile = 32 << 20

// readFile reads a configuration. What is not there has no bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, "read", path)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fault.New(fault.Precondition, "read", path, "it is no file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fault.Wrap(err, "read", path)
	}
	if len(text) > maxFile {
		return nil, fault.New(fault.Exhausted, "read", path, "it has more than %d bytes", maxFile)
	}
	return text, nil
}
