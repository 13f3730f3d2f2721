package operations

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

// referenceHead is docs/mcp.md before the tools, with ~ for backquotes and %s for the profiles.
const referenceHead = `# Tools for agents

<!-- Generated from the tools: go test ./internal/operations -run TestMCPReference -update -->

~pyro mcp serve~ serves these tools over the Model Context Protocol, versions 2024-11-05 to
2026-07-28. [agents.md](agents.md) shows how to connect an agent, and
[security.md](security.md#agents) describes what an agent can reach.

Choose a profile with ~--profile~:

| profile | tools | for |
| --- | --- | --- |
%s
~workspace-core~ has the 16 tools of the public contract of version 3.8.
~workspace-full~ has the 43 tools of that contract and twelve more: ~workspace_summary~,
~workspace_fork~, ~workspace_pause~, ~workspace_resume~, ~workspace_network_log~, ~command_start~,
~command_read~, ~command_wait~, ~command_kill~, ~service_publish~, ~service_unpublish~ and
~workspace_sync_pull~.

## The project

~--project-path~ names the project of a server. Without it, the project is the git checkout in the
current folder, unless this checkout contains your home folder. A server with ~--transport http~ has
a project only with ~--project-path~. The description of ~workspace_create~ then names the project.
If the agent gives no ~seed_path~, the new workspace begins with a copy of the project.

## Arguments

A null argument counts as missing, and 30.0 counts as the integer 30. pyro checks all arguments
before it starts anything. An error names the argument: ~timeout_seconds: want an integer, got a
string~.

## Results

A result has two forms:

- **Structured content** has all fields, as in [json.md](json.md) and in the tool's output schema.
- **Text** is a short form for a model, such as the exit code and the output of a command.

Both contain the output, because some clients show their model only one of them.

pyro shortens long results and marks the omission:

| content | limit |
| --- | --- |
| output of programs | the first 8 KiB and the last 24 KiB |
| bytes that are not UTF-8 | the first 32 KiB of base64 |
| lists | 1,000 entries and 128 KiB |
| history | the last commands, with the first and last 2 KiB of their output |
| the whole result | 1 MiB |

## Errors

If a call fails, its result has ~isError~ and the fields ~error~, ~kind~ and ~hint~.
[json.md](json.md#errors) lists the kinds. A hint names a tool to call, or an action for the user.

A call of a tool that the profile does not have is a protocol error, -32602.

## Progress, logs and cancellation

- **Progress.** If a call has a progress token, the client receives the steps of long work and the
  last KiB of output, once a second. If nothing is new, it receives a message every 10 seconds.
- **Log.** If the client sets a log level, it receives the steps with level ~info~, and weak
  isolation with level ~warning~.
- **Cancellation.** If a client cancels a call or disconnects, the command of the call ends too. On
  stdio, a client can close pyro's input and still read the answers to its calls, for up to an hour.
  Workspaces, services, shells and commands of ~command_start~ keep running.

## Protocol

- On stdio, pyro answers an invalid line or a batch with one error and continues with the next line.
- Over HTTP, a refused message gets a JSON-RPC error. The status is 200 for an unknown method, and
  400 for all others.
- An id is a string, or an integer between -2^53 and 2^53. A message has at most 34 MiB.
- The HTTP server handles 256 requests at once and has at most 1,000 sessions. It forgets a session
  that was silent for an hour.

## Tools

Paths "of the host" are paths of the computer that runs pyro. The line below each tool says:

- **read-only**, if the tool changes nothing;
- **only adds**, if it changes nothing that exists;
- **destructive**, if it can delete or replace files, processes or records;
- **idempotent**, if a repeated call changes nothing more;
- **open world**, if it runs commands or fetches images.
`

// TestMCPReference compares docs/mcp.md with the tools.
func TestMCPReference(t *testing.T) {
	var b bytes.Buffer
	var profiles strings.Builder
	for i, use := range []string{"single commands", "work on files; start with this one", "everything; the default"} {
		fmt.Fprintf(&profiles, "| `%s` | %d | %s |\n", Profiles[i], len(tools(nil, Profiles[i], "")), use)
	}
	fmt.Fprintf(&b, strings.ReplaceAll(referenceHead, "~", "`"), profiles.String())
	full, core := tools(nil, ProfileWorkspaceFull, ""), tools(nil, ProfileWorkspaceCore, "")
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
		fmt.Fprintf(&b, "\nFields of the result: `%s`\n", strings.Join(fieldsOf(tool.Result), ", "))
	}
	golden(t, "../../docs/mcp.md", b.Bytes())
}

// TestMCPContract checks the names, defaults and required arguments of tools. Prompts and programs
// of agents rely on them, so a change is breaking.
func TestMCPContract(t *testing.T) {
	var b bytes.Buffer
	for _, profile := range Profiles {
		fmt.Fprintln(&b, profile)
		for _, tool := range tools(nil, profile, "") {
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
		t.Errorf("%s is out of date; go test ./internal/operations -run 'TestMCP|TestRPC' -update rewrites it:\n%s", path, diff)
	}
}

// fieldsOf returns the JSON fields of a result.
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
			names = append(names, name)
		}
	}
	return names
}
