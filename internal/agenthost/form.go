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

// form is how a host writes its servers.
type form struct {
	decode   func([]byte) (map[string]any, error)
	entry    func(map[string]any) (entry, error)
	document func(Server) []byte
}

// entry is a server as it stands in a file.
type entry struct {
	Server
	Remote bool // it is reached at a URL, and started by nobody here
	Off    bool // the host does not start it
}

// isPyro tells that an entry is meant to be pyro, however it is called.
func (e entry) isPyro() bool {
	return filepath.Base(e.Command) == "pyro" && slices.Contains(e.Args, "mcp") && slices.Contains(e.Args, "serve")
}

// entries gives the servers of a file that have a name, or are pyro, sorted by name.
func (f form) entries(file File, name string) (found []entry, err error) {
	text, err := readFile(file.Path)
	if err != nil {
		return nil, err
	}
	return f.read(text, file, name)
}

// read gives them of the text of a file.
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

// shortened is what an error says in one printable line of bounded length.
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

// maxTOML bounds what is decoded of it, in bytes. Deeply nested TOML takes the decoder time by the square of its depth, so that no project's files are given to it.
const maxTOML = 1 << 20

func decodeTOML(text []byte) (table map[string]any, err error) {
	if len(text) > maxTOML {
		return nil, fmt.Errorf("it has more than %d bytes", maxTOML)
	}
	err = toml.Unmarshal(text, &table)
	return table, err
}

// plainEntry is that of most: a command, its arguments and its environment.
func plainEntry(value map[string]any) (e entry, err error) {
	e.Command, _ = value["command"].(string)
	_, e.Remote = value["url"].(string)
	on, said := value["enabled"].(bool)
	e.Off = said && !on
	if value["disabled"] == true {
		e.Off = true
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

// opencodeEntry has the command and its arguments in one list.
func opencodeEntry(value map[string]any) (e entry, err error) {
	_, e.Remote = value["url"].(string)
	on, said := value["enabled"].(bool)
	e.Off = said && !on
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
		return nil, fmt.Errorf("it is no list")
	}
	for _, each := range list {
		text, ok := each.(string)
		if !ok {
			return nil, fmt.Errorf("it is no list of texts")
		}
		all = append(all, text)
	}
	return all, nil
}

func pairs(value any) (map[string]string, error) {
	table, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, fmt.Errorf("its environment is no table")
	}
	all := map[string]string{}
	for name, each := range table {
		text, ok := each.(string)
		if !ok {
			return nil, fmt.Errorf("the variable %q is no text", name)
		}
		all[name] = text
	}
	return all, nil
}

// plainServer and opencodeServer are servers as they are written.
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

// typedDocument is for hosts that want to be told that the server is a program.
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

// tomlText is a text as TOML has it: as JSON does, but for the one control character that JSON allows.
func tomlText(text string) string {
	return strings.ReplaceAll(string(oneLine(text)), "\x7f", `\u007f`)
}

func oneLine(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // texts, and structs of texts
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func indented(value any) []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, oneLine(value), "", "  ")
	return append(b.Bytes(), '\n')
}
