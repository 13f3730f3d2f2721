package pyro

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/mcp/mcpdoc"
)

var update = flag.Bool("update", false, "rewrite docs/mcp.md, docs/rpc.md and the golden files of tools and methods")

const referenceHead = `# Tools for agents

<!-- Generated from the tools: go test . -run TestMCPReference -update -->

` + "`pyro mcp serve`" + ` gives an agent these tools, over the Model Context Protocol in its versions from 2024-11-05 to 2026-07-28. Begin with
` + "`--profile workspace-core`" + `. How it is started: [cli.md](cli.md#pyro-mcp-serve); what it may do: [security.md](security.md#agents).

- What is wrong with arguments, and what goes wrong in a call, is a result with ` + "`isError`" + ` and the fields ` + "`error`, `kind` and `hint`" + `. Kinds are those of
  [json.md](json.md#errors); a hint names a tool to call, or what the user can do. A tool that is not in the profile is an error of the protocol, -32602.
- The text of a result is its short form, for a model: exit code and output of a command, content of a file, a diff, or a line for each field that is not empty. Its
  structured content is all of it, with the fields of [json.md](json.md), as the tool's output schema says; errors are in that schema too. What is long is cut, and says so: of what programs print an
  agent is given the first 8 and the last 24 KiB, of bytes the first 32 KiB of base64; of lists up to 1,000 entries and 128 KiB; of the history the last commands.
  No result has more than 1 MiB.
- A client that sends a progress token is told what is prepared, what a command prints (the last KiB, once a second at most), and every 10 seconds of silence that the call
  still runs. A client that sets a log level (` + "`logging/setLevel`" + `) gets steps as ` + "`info`, and as `warning`" + ` why a machine is emulated or not isolated. A call that is cancelled, or whose client goes, ends, and with it the command that it ran. Workspaces,
  services and shells go on.
- A line on stdio that is no message, and a batch, is answered with one error, and the next is served. Over HTTP too a refused message is answered with a JSON-RPC
  error: with status 200 if its method is unknown, else with 400. An id must be a string, or an integer between -2^53 and 2^53. A message has 34 MiB at most, an HTTP server 256 requests at
  once and 1,000 sessions; a session that was silent for an hour is forgotten.
- Each path that is "of the host" is one of the computer that pyro runs on.
- A server that was started in a git checkout, or with ` + "`--project-path`, has a project: where `seed_path` of `workspace_create`" + ` is left out, it is a copy of the project
  that a workspace begins with. The description of the tool names it then.
- ` + "`workspace-core` has the 16 tools of the public contract of version 3.8 and `vm_list_environments`. `workspace-full` has its 43, and five more:" + `
  ` + "`workspace_summary`, `workspace_fork`, `workspace_pause`, `workspace_resume` and `workspace_network_log`" + `.
- Of each tool below stands what it does to the world. It is destructive if files, processes or records may be lost or replaced by it; idempotent if the same call again changes
  nothing more; its world is open if it runs commands or fetches images.

| profile | tools | for |
| --- | --- | --- |
`

// TestMCPReference holds docs/mcp.md against the tools.
func TestMCPReference(t *testing.T) {
	p := &Pyro{}
	var b bytes.Buffer
	b.WriteString(referenceHead)
	for i, use := range []string{"one command at a time", "work on files: the one to begin with", "everything, as without `--profile`"} {
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", Profiles[i], len(p.tools(Profiles[i], "")), use)
	}
	full, core := p.tools(ProfileWorkspaceFull, ""), p.tools(ProfileWorkspaceCore, "")
	for _, tool := range full {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s.", tool.Name, tool.Description, mcpdoc.Annotations(tool))
		i := slices.IndexFunc(core, func(c mcp.Tool) bool { return c.Name == tool.Name })
		switch {
		case tool.Name == "vm_run":
			b.WriteString(" In all profiles.\n")
		case i >= 0:
			b.WriteString(" In workspace-core and workspace-full.\n")
		default:
			b.WriteString(" In workspace-full.\n")
		}
		mcpdoc.Arguments(&b, tool, func(a mcp.Arg) string {
			note := a.Schema().Description
			if i >= 0 && !slices.ContainsFunc(core[i].Args, func(c mcp.Arg) bool { return c.Name == a.Name }) {
				note = strings.TrimPrefix(note+"; not in workspace-core", "; ")
			}
			return note
		})
		fmt.Fprintf(&b, "\nResult: %s.\n", strings.Join(fieldsOf(tool.Result), ", "))
	}
	golden(t, "docs/mcp.md", b.Bytes())
}

// TestMCPContract holds what agents' prompts and programs rely on: changing a name or a default, or requiring more, is a breaking change.
func TestMCPContract(t *testing.T) {
	p := &Pyro{}
	var b bytes.Buffer
	for _, profile := range Profiles {
		fmt.Fprintln(&b, profile)
		for _, tool := range p.tools(profile, "") {
			fmt.Fprintf(&b, "  %s\n", tool.Name)
			for _, a := range tool.Args {
				fmt.Fprintf(&b, "    %s %s %s\n", a.Name, mcpdoc.Type(a.Schema()), mcpdoc.Default(a))
			}
		}
	}
	golden(t, "testdata/mcp.golden", b.Bytes())
}

func golden(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), string(want)); diff != "" {
		t.Errorf("%s is not what the tools say; go test . -run 'TestMCP|TestRPC' -update rewrites it:\n%s", path, diff)
	}
}

// fieldsOf are the fields of a result.
func fieldsOf(of reflect.Type) (names []string) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	for i := range of.NumField() {
		f := of.Field(i)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case f.Anonymous && name == "":
			names = append(names, fieldsOf(f.Type)...)
		case name != "-" && name != "":
			names = append(names, "`"+name+"`")
		}
	}
	return names
}
