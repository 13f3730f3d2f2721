package agenthost

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is a server that needs quoting in every format.
var sample = Server{
	Name: "pyro_2-x", Command: `/opt/a b/"pyro"`, Args: []string{"mcp", "serve", "--project-path", `/src/ü \ 'x' = {} # <&>` + "\u2028"},
	Env: map[string]string{"PYRO_STATE_DIR": `/state "1"`, "PYRO_ISOLATION": "gvisor"},
}

// homeIn returns a user's Home whose files are in a folder. The Home has a project.
func homeIn(folder string) Home {
	return Home{
		Folder: folder, Config: filepath.Join(folder, ".config"), Work: filepath.Join(folder, "calc", "src"), Project: filepath.Join(folder, "calc"),
		Getenv: func(string) string { return "" },
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDocuments checks that the parser of each host reads the document that is printed for the
// host.
func TestDocuments(t *testing.T) {
	for _, h := range Hosts {
		home := homeIn(t.TempDir())
		for _, s := range []Server{sample, {Name: "pyro", Command: "pyro", Args: []string{"mcp", "serve"}}} {
			write(t, h.File(home), string(h.Document(s)))
			found, err := h.form.entries(h.files(home)[0], s.Name)
			if err != nil || len(found) != 1 || found[0].Name != s.Name || !found[0].right(s) {
				t.Errorf("%s: %+v, %v, of\n%s", h.Name, found, err, h.Document(s))
			}
		}
	}
}

var update = flag.Bool("update", false, "rewrite examples/mcp")

// TestExamples checks that the examples are equal to the printed documents.
func TestExamples(t *testing.T) {
	s := Server{Name: "pyro", Command: "pyro", Args: []string{"mcp", "serve", "--profile", "workspace-core"}}
	readme, err := os.ReadFile("../../examples/mcp/README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{
		"claude-code": "claude-code/.mcp.json", "claude-desktop": "claude-desktop/claude_desktop_config.json", "codex": "codex/config.toml",
		"cursor": "cursor/mcp.json", "vscode": "vscode/mcp.json", "opencode": "opencode/opencode.json",
	}
	for _, h := range Hosts {
		path := filepath.Join("../../examples/mcp", names[h.Name])
		if *update {
			write(t, path, string(h.Document(s)))
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(h.Document(s))); diff != "" {
			t.Errorf("%s is out of date; go test ./internal/agenthost -run TestExamples -update rewrites it:\n%s", path, diff)
		}
		if !strings.Contains(string(readme), "]("+names[h.Name]+")") {
			t.Errorf("examples/mcp/README.md does not name %s", names[h.Name])
		}
	}
}

// TestEntries checks the parser of each format, and the errors for malformed servers.
func TestEntries(t *testing.T) {
	all := map[string]Host{}
	for _, h := range Hosts {
		all[h.Name] = h
	}
	for _, c := range []struct{ host, text, want string }{
		{"cursor", ``, ``},
		{"cursor", `{}`, ``},
		{"cursor", `{"mcpServers": []}`, ``},
		{"cursor", `{"mcpServers": {"other": {"command": "npx"}}}`, ``},
		{"cursor", `{"mcpServers": {"other": {"command": 7}}}`, ``},
		{"cursor", `{"mcpServers": {"pyro": {"command": "x"}}}`, `pyro: x`},
		{"cursor", `{"mcpServers": {"pyro": {"url": "http://x"}}}`, `pyro: at a URL`},
		{"cursor", `{"mcpServers": {"a": {"command": "/bin/pyro", "args": ["--debug", "mcp", "serve"]}, "b": {"command": "pyro", "args": ["run"]}}}`, `a: /bin/pyro --debug mcp serve`},
		{"cursor", `{"mcpServers": {"pyro": {"command": "x", "args": "y"}}}`, `! its server "pyro": args: not a list`},
		{"cursor", `{"mcpServers": {"pyro": {"command": "x", "env": {"A": 1}}}}`, `! its server "pyro": variable "A" is not a string`},
		{"cursor", `{"mcpServers": {"pyro": 7}}`, `! its server "pyro": it has no command`},
		{"cursor", `{"mcpServers": `, `! unexpected end of JSON input`},
		{"vscode", "{// c\n\"servers\": {\"pyro\": {\"command\": \"x\", /* d */ \"args\": [\"//y\",],},},}", `pyro: x //y`},
		{"codex", "[mcp_servers.pyro]\ncommand = 'x'\nenabled = false\n", `pyro: disabled, x`},
		{"codex", "[mcp_servers]\npyro = { command = \"x\", args = [\"y z\"], env = { A = \"secret\" } }\n", `pyro: x 'y z', with A`},
		{"codex", "[mcp_servers.pyro\n", "! toml: line 2: expected '.' or ']' to end table name, but got '\\n' instead"},
		{"opencode", `{"mcp": {"pyro": {"type": "local", "command": ["x", "y"], "enabled": true}}}`, `pyro: x y`},
		{"opencode", `{"mcp": {"pyro": {"type": "local", "command": ["x"], "enabled": false}}}`, `pyro: disabled, x`},
		{"opencode", `{"mcp": {"pyro": {"type": "local", "command": []}}}`, `! its server "pyro": it has no command`},
		{"opencode", `{"mcp": {"pyro": {"type": "remote", "url": "http://x"}}}`, `pyro: at a URL`},
		{"claude-code", `{"projects": {"HOME/calc": {"mcpServers": {"pyro": {"command": "x"}}}}}`, `pyro: x`},
	} {
		home, h := homeIn(t.TempDir()), all[c.host]
		var got []string
		write(t, h.File(home), strings.ReplaceAll(c.text, "HOME", home.Folder))
		for _, file := range h.files(home) {
			if file.Path != h.File(home) {
				continue
			}
			found, err := h.form.entries(file, "pyro")
			if err != nil {
				_, text, _ := strings.Cut(err.Error(), `": `)
				got = append(got, "! "+text)
			}
			for _, e := range found {
				got = append(got, e.Name+": "+e.describe())
			}
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s %s: got %q, want %q", c.host, c.text, text, c.want)
		}
	}
}

// TestFiles checks the paths of each host's files, including the paths that environment variables
// set.
func TestFiles(t *testing.T) {
	home := homeIn("/home/you")
	set := map[string]string{"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "OPENCODE_CONFIG": "/o.json"}
	moved := home
	moved.Getenv = func(name string) string { return set[name] }
	for _, c := range []struct {
		host string
		home Home
		want string
	}{
		{"claude-code", home, "user ~/.claude.json, project ~/calc/src/.mcp.json, project ~/calc/.mcp.json, local ~/.claude.json"},
		{"claude-code", moved, "user /c/.claude.json, project ~/calc/src/.mcp.json, project ~/calc/.mcp.json, local /c/.claude.json"},
		{"claude-desktop", home, "user ~/.config/Claude/claude_desktop_config.json"},
		{"codex", home, "user ~/.codex/config.toml"},
		{"codex", moved, "user /x/config.toml"},
		{"cursor", Home{Folder: "/h", Work: "/h", Getenv: home.Getenv}, "user /h/.cursor/mcp.json"},
		{"cursor", home, "user ~/.cursor/mcp.json, project ~/calc/src/.cursor/mcp.json, project ~/calc/.cursor/mcp.json"},
		{"vscode", home, "user ~/.config/Code/User/mcp.json, project ~/calc/src/.vscode/mcp.json, project ~/calc/.vscode/mcp.json"},
		{"opencode", moved, "user ~/.config/opencode/opencode.json, user ~/.config/opencode/opencode.jsonc, user ~/.config/opencode/config.json, user /o.json, " +
			"project ~/calc/src/opencode.json, project ~/calc/src/opencode.jsonc, project ~/calc/opencode.json, project ~/calc/opencode.jsonc"},
	} {
		h, err := Find(c.host)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range h.files(c.home) {
			got = append(got, f.Scope+" "+strings.Replace(f.Path, "/home/you/", "~/", 1))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: got %s, want %s", c.host, text, c.want)
		}
	}
}

// FuzzStandard checks that JSON text does not change, and that offsets in JSONC text do not change.
func FuzzStandard(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2,], } // x`, `/* { */ {"a": "// \" /*"}`, `[1,/* */]`, `"\`, `/`, `/*/`, "{}//\n", `{,}`, `[,1]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plain, changed := standard([]byte(text))
		if len(plain) != len(text) || strings.Count(string(plain), "\n") != strings.Count(text, "\n") {
			t.Errorf("%q became %q", text, plain)
		}
		if !changed && string(plain) != text {
			t.Errorf("%q became %q without an error", text, plain)
		}
		if json.Valid([]byte(text)) && changed {
			t.Errorf("%q became %q", text, plain)
		}
	})
}

// FuzzEntries checks that no file makes the parser panic or return control characters.
func FuzzEntries(f *testing.F) {
	for i, h := range Hosts {
		f.Add(i, h.Document(sample))
	}
	f.Add(0, []byte(`{"projects": {"/": 7}, "mcpServers": {"pyro": null}}`))
	f.Fuzz(func(t *testing.T, i int, text []byte) {
		if len(text) > 2<<10 {
			return // deeply nested text takes long
		}
		h := Hosts[uint(i)%uint(len(Hosts))]
		for _, file := range h.files(homeIn("/")) {
			found, err := h.form.read(text, file, "pyro")
			if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%q", err)
			}
			for _, e := range found {
				if e.Command == "" && !e.Remote {
					t.Errorf("%+v", e)
				}
			}
		}
	})
}
