package agenthost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// form is the format of a host's configuration.
type form struct {
	decode   func([]byte) (map[string]any, error)
	entry    func(map[string]any) (entry, error)
	document func(Server) []byte
}

// entry is a server in a host's configuration file.
type entry struct {
	Server
	Remote   bool // the host connects to a URL instead of starting a program
	Disabled bool // the host does not start the server
}

// isPyro reports whether an entry starts pyro, under any name.
func (e entry) isPyro() bool {
	return filepath.Base(e.Command) == "pyro" && slices.Contains(e.Args, "mcp") && slices.Contains(e.Args, "serve")
}

// entries returns the servers in a file that have the given name or start pyro, sorted by name.
func (f form) entries(file File, name string) (found []entry, err error) {
	text, err := readFile(file.Path)
	if err != nil {
		return nil, err
	}
	return f.read(text, file, name)
}

// read is like entries, but gets the text of the file.
func (f form) read(text []byte, file File, name string) (found []entry, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	table, err := f.decode(text)
	if err != nil {
		return nil, fault.New(fault.Corrupt, "read", file.Path, "%s", shortened(err))
	}
	for _, key := range file.table {
		table, _ = table[key].(map[string]any)
	}
	for _, each := range slices.Sorted(maps.Keys(table)) {
		value, _ := table[each].(map[string]any)
		e, err := f.entry(value)
		if err != nil && each == name {
			return nil, fault.New(fault.Corrupt, "read", file.Path, "its server %q: %s", each, shortened(err))
		}
		e.Name = each
		if err == nil && (each == name || e.isPyro()) {
			found = append(found, e)
		}
	}
	return found, nil
}

// shortened returns the first line of an error. The line is printable and truncated.
func shortened(err error) string {
	text, _, _ := strings.Cut(fault.Printable(err.Error()), "\n")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return text
}

func decodeJSON(text []byte) (table map[string]any, err error) {
	strict, _ := standard(text)
	err = json.Unmarshal(strict, &table)
	return table, err
}

// maxTOML is the maximum size of a TOML file, in bytes. The decoder's running time is quadratic in
// the nesting depth, so it must not read files of projects.
const maxTOML = 1 << 20

func decodeTOML(text []byte) (table map[string]any, err error) {
	if len(text) > maxTOML {
		return nil, fmt.Errorf("it is larger than %d bytes", maxTOML)
	}
	err = toml.Unmarshal(text, &table)
	return table, err
}

// plainEntry parses the format that most hosts use, with the members command, args and env.
func plainEntry(value map[string]any) (e entry, err error) {
	e.Command, _ = value["command"].(string)
	_, e.Remote = value["url"].(string)
	on, said := value["enabled"].(bool)
	e.Disabled = said && !on
	if value["disabled"] == true {
		e.Disabled = true
	}
	if e.Command == "" && !e.Remote {
		return e, fmt.Errorf("it has no command")
	}
	if e.Args, err = texts(value["args"]); err != nil {
		return e, fmt.Errorf("args: %w", err)
	}
	e.Env, err = pairs(value["env"])
	return e, err
}

// opencodeEntry parses opencode's format. There the command and its arguments are one list.
func opencodeEntry(value map[string]any) (e entry, err error) {
	_, e.Remote = value["url"].(string)
	on, said := value["enabled"].(bool)
	e.Disabled = said && !on
	words, err := texts(value["command"])
	if err != nil {
		return e, fmt.Errorf("command: %w", err)
	}
	if len(words) == 0 && !e.Remote {
		return e, fmt.Errorf("it has no command")
	}
	if len(words) > 0 {
		e.Command, e.Args = words[0], words[1:]
	}
	e.Env, err = pairs(value["environment"])
	return e, err
}

func texts(value any) (all []string, err error) {
	list, ok := value.([]any)
	if !ok && value != nil {
		return nil, fmt.Errorf("not a list")
	}
	for _, each := range list {
		text, ok := each.(string)
		if !ok {
			return nil, fmt.Errorf("not a list of strings")
		}
		all = append(all, text)
	}
	return all, nil
}

func pairs(value any) (map[string]string, error) {
	table, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, fmt.Errorf("the environment is not a table")
	}
	all := map[string]string{}
	for name, each := range table {
		text, ok := each.(string)
		if !ok {
			return nil, fmt.Errorf("variable %q is not a string", name)
		}
		all[name] = text
	}
	return all, nil
}

// plainServer and opencodeServer are the encoded forms of a server in the two formats.
type plainServer struct {
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
}

type opencodeServer struct {
	Type        string            `json:"type"`
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment,omitempty"`
	Enabled     bool              `json:"enabled"`
}

func plainDocument(table string) func(Server) []byte {
	return func(s Server) []byte {
		return indented(map[string]any{table: map[string]plainServer{s.Name: {Command: s.Command, Args: s.Args, Env: s.Env}}})
	}
}

// typedDocument returns a document function for hosts whose format requires the type of the server.
func typedDocument(table string) func(Server) []byte {
	return func(s Server) []byte {
		return indented(map[string]any{table: map[string]plainServer{s.Name: {Type: "stdio", Command: s.Command, Args: s.Args, Env: s.Env}}})
	}
}

func opencodeOf(s Server) opencodeServer {
	return opencodeServer{Type: "local", Command: append([]string{s.Command}, s.Args...), Environment: s.Env, Enabled: true}
}

const opencodeSchema = "https://opencode.ai/config.json"

func opencodeDocument(s Server) []byte {
	return indented(struct {
		Schema string                    `json:"$schema"`
		MCP    map[string]opencodeServer `json:"mcp"`
	}{opencodeSchema, map[string]opencodeServer{s.Name: opencodeOf(s)}})
}

func codexDocument(s Server) []byte {
	var b bytes.Buffer
	args := make([]string, len(s.Args))
	for i, a := range s.Args {
		args[i] = tomlText(a)
	}
	fmt.Fprintf(&b, "[mcp_servers.%s]\ncommand = %s\nargs = [%s]\n", s.Name, tomlText(s.Command), strings.Join(args, ", "))
	if len(s.Env) > 0 {
		fmt.Fprintf(&b, "\n[mcp_servers.%s.env]\n", s.Name)
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			fmt.Fprintf(&b, "%s = %s\n", name, tomlText(s.Env[name]))
		}
	}
	return b.Bytes()
}

// tomlText encodes a TOML string. JSON's encoding of a string is valid TOML, except for the
// character DEL.
func tomlText(text string) string {
	return strings.ReplaceAll(string(oneLine(text)), "\x7f", `\u007f`)
}

func oneLine(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // can't fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func indented(value any) []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, oneLine(value), "", "  ")
	return append(b.Bytes(), '\n')
}
