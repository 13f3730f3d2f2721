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

~pyro mcp serve~ gives an agent these tools over the Model Context Protocol, versions 2024-11-05 to
2026-07-28. To connect an agent, see [agents.md](agents.md). For the limits of an agent, see
[security.md](security.md#agents).

| profile | tools | for |
| --- | --- | --- |
%s
~workspace-core~ has the 16 tools of the public contract of version 3.8.
~workspace-full~ has the 43 tools of that contract and twelve more: ~workspace_summary~,
~workspace_fork~, ~workspace_pause~, ~workspace_resume~, ~workspace_network_log~, ~command_start~,
~command_read~, ~command_wait~, ~command_kill~, ~service_publish~, ~service_unpublish~ and
~workspace_sync_pull~.

## Results and errors

- **Structured content** has all fields of the result, as in [json.md](json.md) and in the tool's output
  schema. **Text** is a short form for a model, such as the exit code and output of a command. Both
  contain the output, because some clients give their model only the text, and others only the
  structured content.
- **Errors** are results with ~isError~ and the fields ~error~, ~kind~ and ~hint~. The kinds are in
  [json.md](json.md#errors). A hint names a tool to call, or an action for the user.
- **Arguments.** Null counts as a missing argument, and 30.0 as the integer 30. An error names the
  argument: ~timeout_seconds: want an integer, got a string~.
- A tool that is not in the profile is a protocol error, -32602.
- **Progress.** If the client sends a progress token, it receives the steps of preparations and the
  last KiB of output, once a second. During silence, it receives a message every 10 seconds.
- **Log.** If the client sets a log level, it receives the steps with level ~info~, and weak
  isolation with level ~warning~.
- **Cancelling.** If a call is cancelled, or its client disconnects, its command ends too. On stdio,
  a client that still reads gets the answers to all calls that it sent, for up to an hour.
  Workspaces, services, shells and commands of ~command_start~ keep running.

pyro shortens long results and marks the omission:

| content | limit |
| --- | --- |
| output of programs | the first 8 KiB and the last 24 KiB |
| bytes that are not UTF-8 | the first 32 KiB of base64 |
| lists | 1,000 entries and 128 KiB |
| history | the last commands |
| the whole result | 1 MiB |

## Protocol

- On stdio, pyro answers an invalid line or a batch with one error, and then continues with the next
  line.
- Over HTTP, a refused message gets a JSON-RPC error. The status is 200 for an unknown method, and 400
  for all others.
- An id is a string, or an integer between -2^53 and 2^53. A message has at most 34 MiB.
- The HTTP server handles 256 requests at once and 1,000 sessions. It forgets a session after an hour
  of silence.

## The project

A server that starts in a git checkout, or with ~--project-path~, has a project. If the arguments of
~workspace_create~ have no ~seed_path~, the workspace begins with a copy of the project. The tool's
description then names the project.

## Tools

Paths "of the host" are paths of the computer that pyro runs on. Each tool has these properties:

- **read-only**, if it changes nothing;
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
