package pyro

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/rpc"
)

// What is around the table in docs/rpc.md, with ~ in the place of backquotes.
const (
	rpcHead = `# The protocol of SDKs

<!-- Generated from the methods: go test . -run TestRPCReference -update -->

~pyro rpc~ serves pyro's operations to the program that started it: JSON-RPC 2.0 on its standard input and output, a message a line, in UTF-8. The Python
package in [sdk/python](../sdk/python/README.md) is made of it; this page is for who writes another.

~~~json
{"jsonrpc":"2.0","id":1,"method":"run_in_vm","params":{"environment":"debian:12","command":"echo hello"}}
{"jsonrpc":"2.0","id":1,"result":{"environment":"debian:12","exit_code":0,"stdout":"hello\n", …}}
~~~

- **Calls** run at once, up to 128 of them, and are answered in the order of their ends. An id is a string or a number, and no other call under way has it.
- **Params** are an object with the fields that the table below has. One that is not known is an error, and nothing is done. What is left out, 0, or the empty
  string has its default. Paths of the host are those of the computer that pyro runs on, relative to the folder that it was started in.
- **Results** are those of [json.md](json.md): what the command of the table prints with ~--json~. Nothing is cut but by the bounds that are told there.
- **Errors** have a code, a message and data: ~kind~ as in [json.md](json.md#errors), and where there are any ~op~, ~subject~ and ~hint~. Codes are -32700 for
  a line that is no JSON, -32600 for what is no request, for a batch, and for more than 34 MiB, -32601 for a method that is not there, -32602 for kind
  ~invalid_argument~, -32603 for ~internal~, and -32000 for all other kinds. Where too many calls are under way the kind is ~resource_exhausted~. After an
  error of any sort the next line is served.
- **~"stream": true~** among the params of any method has the client be told what comes before the result, which is the same as without:
  ~{"method":"progress","params":{"id":…,"phase":…,"subject":…,"done":…,"total":…}}~ of what is made, a phase ten times a second at most, and
  ~{"method":"output","params":{"id":…,"stream":"stdout","data":…,"encoding":"utf-8"}}~ of what a command prints, up to 32 KiB at once. ~stream~ is ~stdout~
  or ~stderr~, ~encoding~ ~utf-8~, or ~base64~ where the bytes are not UTF-8; no character is split.
- **A client that reads slowly** makes the commands wait whose output it is told. So that one of them does not make the others wait, ~"window": BYTES~ besides
  ~stream~ has a command wait when so much of its output is on its way; ~{"method":"consumed","params":{"id":…,"bytes":…}}~ says how many bytes more, as the
  command wrote them, were dealt with.
- **~{"method":"cancel","params":{"id":…}}~** ends a call, and with it the command that it runs. The call is answered all the same, mostly by an error of kind
  ~canceled~.
- **The end of the input** cancels all calls. When they have ended, pyro ends with exit code 0; so it does when its output is closed. A signal that asks it to
  end does the same.

## Methods

*Tells* is what a call may tell with ~stream~. *As* is the command whose ~--json~ is the result, or the function of package pyro, of which
[json.md](json.md#machines) has the result.

| method | params | tells | as |
| --- | --- | --- | --- |
`

	rpcTail = `
~fork_workspace~ that could not make all it was to make gives those that it made, and an ~error~ with ~kind~, ~message~, ~op~, ~subject~ and ~hint~.
`
)

// TestRPCReference holds docs/rpc.md against the methods.
func TestRPCReference(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(strings.ReplaceAll(rpcHead, "~", "`"))
	for _, m := range (&Pyro{}).methods() {
		var params []string
		for _, f := range m.Fields() {
			params = append(params, "`"+f.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", m.Name, strings.Join(params, ", "), notesOf(m), m.As)
	}
	b.WriteString(strings.ReplaceAll(rpcTail, "~", "`"))
	golden(t, "docs/rpc.md", b.Bytes())
}

// TestRPCContract holds what SDKs rely on: to take a name away is a breaking change. The Python package is held against the same file.
func TestRPCContract(t *testing.T) {
	var b bytes.Buffer
	for _, m := range (&Pyro{}).methods() {
		fmt.Fprintln(&b, strings.TrimSpace(m.Name+" "+notesOf(m)))
		for _, f := range m.Fields() {
			fmt.Fprintf(&b, "  %s %s\n", f.Name, paramType(f.Type))
		}
	}
	golden(t, "testdata/rpc.golden", b.Bytes())
}

func notesOf(m rpc.Method) string {
	var notes []string
	if m.Notes&rpc.Progress != 0 {
		notes = append(notes, "progress")
	}
	if m.Notes&rpc.Output != 0 {
		notes = append(notes, "output")
	}
	return strings.Join(notes, " ")
}

// paramType is what a Go type is in JSON.
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
	if of == reflect.TypeFor[SecretValue]() {
		return "string"
	}
	var fields []string
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name+" "+paramType(f.Type))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// TestRPCMethods has each method be one that its result is described of, and tell what its operation can tell.
func TestRPCMethods(t *testing.T) {
	described, err := os.ReadFile("docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, machines, _ := strings.Cut(string(described), "\n## Machines\n")
	seen := map[string]bool{}
	for _, m := range (&Pyro{}).methods() {
		if seen[m.Name] {
			t.Errorf("there are two of %s", m.Name)
		}
		seen[m.Name] = true
		inTitle := false
		for line := range strings.Lines(string(described)) {
			if titles, ok := strings.CutPrefix(line, "## "); ok {
				for title := range strings.SplitSeq(strings.TrimSpace(titles), ", ") {
					inTitle = inTitle || title == m.As
				}
			}
		}
		if !inTitle && !strings.Contains(machines, "`"+m.As+"`") {
			t.Errorf("%s: docs/json.md does not describe %s", m.Name, m.As)
		}
		_, progress := m.Request.FieldByName("Progress")
		_, output := m.Request.FieldByName("Stdout")
		if progress != (m.Notes&rpc.Progress != 0) || output != (m.Notes&rpc.Output != 0) {
			t.Errorf("%s tells %q, and its request has progress %v, output %v", m.Name, notesOf(m), progress, output)
		}
		for _, f := range m.Fields() {
			if f.Name == "" || f.Name == "stream" || f.Name == "window" {
				t.Errorf("%s: a parameter %q", m.Name, f.Name)
			}
		}
	}
}
