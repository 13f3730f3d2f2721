// Package agenthost supports the programs that run agents, such as Claude Code. For each program,
// it describes the configuration files that list MCP servers, their format, and the commands that
// edit them. [Hosts] lists all supported programs.
//
// The configuration files belong to the user. The package reads them only as data, up to a maximum
// size. It writes only opencode's file. It replaces that file atomically and stores a backup. Files
// in a project are untrusted. So pyro starts no program just because a project's file names it.
package agenthost

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Host is a program that runs agents.
type Host struct {
	Name    string // name in commands, such as claude-code
	Title   string // name for users, such as Claude Code
	Program string // name of the program in PATH
	Install string // how to install the program: a command or a URL

	version []string // arguments that print the version; nil if unknown
	form    form
	files   func(Home) []File // the default file is first
	add     func(s Server, scope string) []string
	remove  func(name, scope string) []string
	scopes  []string // scopes for Connect and Repair; the default scope is first
}

// Hosts lists all known hosts.
var Hosts = []Host{
	{
		Name: "claude-code", Title: "Claude Code", Program: "claude", Install: "npm install -g @anthropic-ai/claude-code",
		version: []string{"--version"}, form: form{decodeJSON, plainEntry, typedDocument("mcpServers")}, files: claudeCodeFiles,
		add: func(s Server, scope string) []string {
			args := []string{"mcp", "add", "--scope", scope, s.Name} // the name comes first, because -e takes all following words
			for _, e := range s.environment() {
				args = append(args, "-e", e)
			}
			return append(append(args, "--", s.Command), s.Args...)
		},
		remove: func(name, scope string) []string { return []string{"mcp", "remove", "--scope", scope, name} },
		scopes: []string{ScopeUser, ScopeProject},
	},
	{
		Name: "claude-desktop", Title: "Claude Desktop", Program: "claude-desktop", Install: "https://claude.ai/download",
		form: form{decodeJSON, plainEntry, plainDocument("mcpServers")},
		files: func(h Home) []File {
			return []File{{filepath.Join(h.Config, "Claude", "claude_desktop_config.json"), ScopeUser, []string{"mcpServers"}}}
		},
	},
	{
		Name: "codex", Title: "Codex", Program: "codex", Install: "npm install -g @openai/codex",
		version: []string{"--version"}, form: form{decodeTOML, plainEntry, codexDocument},
		files: func(h Home) []File {
			own := h.variable("CODEX_HOME", filepath.Join(h.Folder, ".codex"))
			return []File{{filepath.Join(own, "config.toml"), ScopeUser, []string{"mcp_servers"}}}
		},
		add: func(s Server, _ string) []string {
			args := []string{"mcp", "add", s.Name}
			for _, e := range s.environment() {
				args = append(args, "--env", e)
			}
			return append(append(args, "--", s.Command), s.Args...)
		},
		remove: func(name, _ string) []string { return []string{"mcp", "remove", name} },
		scopes: []string{ScopeUser},
	},
	{
		Name: "cursor", Title: "Cursor", Program: "cursor", Install: "https://cursor.com/download",
		version: []string{"--version"}, form: form{decodeJSON, plainEntry, plainDocument("mcpServers")},
		files: func(h Home) []File {
			return h.each([]string{"mcpServers"}, filepath.Join(h.Folder, ".cursor", "mcp.json"), ".cursor/mcp.json")
		},
	},
	{
		Name: "vscode", Title: "VS Code", Program: "code", Install: "https://code.visualstudio.com/download",
		version: []string{"--version"}, form: form{decodeJSON, plainEntry, typedDocument("servers")},
		files: func(h Home) []File {
			return h.each([]string{"servers"}, filepath.Join(h.Config, "Code", "User", "mcp.json"), ".vscode/mcp.json")
		},
	},
	{
		Name: "opencode", Title: "opencode", Program: "opencode", Install: "npm install -g opencode-ai",
		version: []string{"--version"}, form: form{decodeJSON, opencodeEntry, opencodeDocument}, files: opencodeFiles,
		scopes: []string{ScopeUser},
	},
}

// Find returns the host with the given name.
func Find(name string) (Host, error) {
	if i := slices.IndexFunc(Hosts, func(h Host) bool { return h.Name == name }); i >= 0 {
		return Hosts[i], nil
	}
	return Host{}, fault.Newf(fault.Invalid, "unknown host %q: it must be %s", name, strings.Join(Names(Hosts...), ", ")).WithHint("pyro host doctor")
}

// Names returns the names of the given hosts.
func Names(hosts ...Host) (names []string) {
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names
}

// Connectable reports whether the host has a command that adds a server.
func (h Host) Connectable() bool { return h.add != nil }

// Repairable reports whether Repair works for the host.
func (h Host) Repairable() bool { return h.add != nil || h.editable() }

// editable reports whether pyro edits the host's file itself. It does so if the host has no command
// to remove servers.
func (h Host) editable() bool { return h.Name == "opencode" }

// Document returns a configuration file that contains only one server.
func (h Host) Document(s Server) []byte { return h.form.document(s) }

// File returns the path of the file that configures servers for all projects of the user.
func (h Host) File(home Home) string { return h.files(home)[0].Path }
