package operations

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/rpc"
)

// The text around the table in docs/rpc.md, with ~ for backquotes.
const (
	rpcHead = `# JSON-RPC for SDKs

<!-- Generated from the methods: go test ./internal/operations -run TestRPCReference -update -->

~pyro rpc~ serves pyro's operations to the program that started it. It speaks JSON-RPC 2.0 in UTF-8
on standard input and output, one message per line. Use it to write an SDK for another language. The
[Python package](../sdk/python/README.md) is built on it.

~~~json
{"jsonrpc":"2.0","id":1,"method":"run_in_vm","params":{"environment":"debian:12","command":"echo hello"}}
{"jsonrpc":"2.0","id":1,"result":{"environment":"debian:12","exit_code":0,"stdout":"hello\n", …}}
~~~

## Calls

- **Concurrency.** Up to 128 calls run at once. pyro answers each call when it ends, in any order.
  If 128 calls are running, another call fails with kind ~resource_exhausted~.
- **Ids** are strings or numbers. Two running calls cannot have the same id.
- **Params** are an object with the fields of the [table](#methods). An unknown field is an error, and
  the call does nothing. A missing field, null, 0 and the empty string mean the default.
  30.0 is the integer 30.
- **Paths of the host** are relative to the working folder of ~pyro rpc~.
- **Results** are the JSON that the command in the table prints with ~--json~: [json.md](json.md).
  Output is not shortened, except at the limits in json.md.
- **Cancelling.** ~{"method":"cancel","params":{"id":…}}~ ends a call and the command that it runs. The
  call still gets a response, usually an error of kind ~canceled~.
- **End.** At the end of its input, ~pyro rpc~ finishes the running calls, for up to an hour. Then it
  exits with code 0. Output then needs no acknowledgements. To end it sooner, cancel the calls first.
  If nothing reads its output any more, or a signal asks it to end, it cancels all calls and exits.

## Errors

An error has a code, a message and data. The data has ~kind~ as in [json.md](json.md#errors), and
sometimes ~op~, ~subject~ and ~hint~. After an error, pyro continues with the next line.

| code | cause |
| --- | --- |
| -32700 | the line is not JSON |
| -32600 | the message is not a request, is a batch, or has more than 34 MiB |
| -32601 | the method does not exist |
| -32602 | kind ~invalid_argument~ |
| -32603 | kind ~internal~ |
| -32000 | every other kind |

## Progress and output

Add ~"stream": true~ to the params of any method. The client then gets notifications before the
result. The result stays the same.

~~~json
{"method":"progress","params":{"id":…,"phase":…,"subject":…,"done":…,"total":…}}
{"method":"output","params":{"id":…,"stream":"stdout","data":…,"encoding":"utf-8"}}
~~~

- ~progress~ describes preparations and other long work, at most ten times a second for each phase.
- ~output~ has up to 32 KiB of a command's output. ~stream~ is ~stdout~ or ~stderr~. ~encoding~ is
  ~utf-8~, or ~base64~ if the bytes are not UTF-8. pyro never splits a character.
- If the client reads slowly, the commands that stream output wait.
- To let only one command wait, add ~"window": BYTES~. The command then waits while that many bytes
  are unacknowledged. Acknowledge processed bytes with
  ~{"method":"consumed","params":{"id":…,"bytes":…}}~. Count the bytes that the command
  wrote, not their encoded form.

## Methods

*Streams* lists the notifications that the method can send. *Result* names the command that prints
the same JSON, or the function of package pyro that returns it. [json.md](json.md#machines)
describes the functions' results.

| method | params | streams | result |
| --- | --- | --- | --- |
`

	rpcTail = `
If ~fork_workspace~ makes only some of the forks, its result contains these forks and an ~error~.
The error has ~kind~, ~message~, ~op~, ~subject~ and ~hint~.
`
)

// TestRPCReference compares docs/rpc.md with the methods.
func TestRPCReference(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(strings.ReplaceAll(rpcHead, "~", "`"))
	for _, m := range methods(nil) {
		var params []string
		for _, f := range m.Fields() {
			params = append(params, "`"+f.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", m.Name, strings.Join(params, ", "), notesOf(m), m.As)
	}
	b.WriteString(strings.ReplaceAll(rpcTail, "~", "`"))
	golden(t, "../../docs/rpc.md", b.Bytes())
}

// TestRPCContract checks the names that SDKs rely on: removing one is a breaking change. The Python
// package is checked against the same file.
func TestRPCContract(t *testing.T) {
	var b bytes.Buffer
	for _, m := range methods(nil) {
		fmt.Fprintln(&b, strings.TrimSpace(m.Name+" "+notesOf(m)))
		for _, f := range m.Fields() {
			fmt.Fprintf(&b, "  %s %s\n", f.Name, paramType(f.Type))
		}
	}
	golden(t, "testdata/rpc.golden", b.Bytes())
}

func notesOf(m rpc.Method) string {
	var notes []string
	if m.Notifications&rpc.Progress != 0 {
		notes = append(notes, "progress")
	}
	if m.Notifications&rpc.Output != 0 {
		notes = append(notes, "output")
	}
	return strings.Join(notes, " ")
}

// paramType returns the JSON type of a Go type.
func paramType(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return paramType(of.Elem())
	case reflect.Slice:
		return "[" + paramType(of.Elem()) + "]"
	case reflect.Map:
		return "{string: " + paramType(of.Elem()) + "}"
	case reflect.Bool, reflect.String:
		return of.Kind().String()
	case reflect.Int, reflect.Int64:
		return "number"
	}
	if of == reflect.TypeFor[pyro.SecretValue]() {
		return "string"
	}
	var fields []string
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name+" "+paramType(f.Type))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// TestRPCMethods checks the documented result of each method, and its notifications.
func TestRPCMethods(t *testing.T) {
	described, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, machines, _ := strings.Cut(string(described), "\n## Machines\n")
	seen := map[string]bool{}
	for _, m := range methods(nil) {
		if seen[m.Name] {
			t.Errorf("duplicate method %s", m.Name)
		}
		seen[m.Name] = true
		inTitle := false
		for section := range strings.SplitSeq(string(described), "\n## ") {
			titles, body, _ := strings.Cut(section, "\n")
			also, _, _ := strings.Cut(strings.TrimPrefix(body, "\n"), "\n\n")
			inTitle = inTitle || slices.Contains(strings.Split(titles, ", "), m.As) ||
				strings.HasPrefix(also, "Also printed by ") && strings.Contains(also, "`"+m.As+"`")
		}
		if !inTitle && !strings.Contains(machines, "`"+m.As+"`") {
			t.Errorf("%s: docs/json.md does not describe %s", m.Name, m.As)
		}
		_, progress := m.Request.FieldByName("Progress")
		_, output := m.Request.FieldByName("Stdout")
		if progress != (m.Notifications&rpc.Progress != 0) || output != (m.Notifications&rpc.Output != 0) {
			t.Errorf("%s: documented notifications are %q, but its request has progress %v, output %v", m.Name, notesOf(m), progress, output)
		}
		for _, f := range m.Fields() {
			if f.Name == "" || f.Name == "stream" || f.Name == "window" {
				t.Errorf("%s: a parameter %q", m.Name, f.Name)
			}
		}
	}
}
