// Package agenthost knows the programs that agents run in, such as Claude Code: where each keeps which MCP servers it starts, how they are written there, and by
// which commands of its own they are added. [Hosts] has one entry for each.
//
// The files are the user's. They are read with a bound, and as data; the one kind that is written, opencode's, is replaced whole or not at all, with a copy of it
// kept. What stands in a project's files was written by whoever wrote the project: no program is started because it is named there.
package agenthost

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Host is one such program.
type Host struct {
	Name    string // as commands take it: claude-code
	Title   string // as people know it: Claude Code
	Program string // what it is found in PATH by
	Install string // how it is had: a command, or a step

	version []string // arguments by which it tells its version and ends; nil where none are known
	form    form
	files   func(Home) []File // the one to write to first
	add     func(s Server, scope string) []string
	remove  func(name, scope string) []string
	scopes  []string // that Connect and Repair know, the usual one first
}

// Hosts are all that are known.
var Hosts = []Host{
	{
		Name: "claude-code", Title: "Claude Code", Program: "claude", Install: "npm install -g @anthropic-ai/claude-code",
		version: []string{"--version"}, form: form{decodeJSON, plainEntry, typedDocument("mcpServers")}, files: claudeCodeFiles,
		add: func(s Server, scope string) []string {
			args := []string{"mcp", "add", "--scope", scope, s.Name} // the name first: -e takes all words that follow
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

// Find gives the host of a name.
func Find(name string) (Host, error) {
	if i := slices.IndexFunc(Hosts, func(h Host) bool { return h.Name == name }); i >= 0 {
		return Hosts[i], nil
	}
	return Host{}, fault.Newf(fault.Invalid, "unknown host %q: it must be %s", name, strings.Join(Names(Hosts...), ", ")).WithHint("pyro host doctor")
}

// Names are those of hosts.
func Names(hosts ...Host) (names []string) {
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names
}

// Connectable tells that the host has a command that adds a server.
func (h Host) Connectable() bool { return h.add != nil }

// Repairable tells that Repair can do something for it.
func (h Host) Repairable() bool { return h.add != nil || h.editable() }

// editable tells that its file is written by pyro, since it has no command that takes a server away.
func (h Host) editable() bool { return h.Name == "opencode" }

// Document is the whole of a configuration that has one server and nothing else.
func (h Host) Document(s Server) []byte { return h.form.document(s) }

// File is where a server belongs that all of the user's projects are to have.
func (h Host) File(home Home) string { return h.files(home)[0].Path }
