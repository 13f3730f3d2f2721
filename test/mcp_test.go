//go:build machine

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMCPClients tests the server with third-party clients: the official TypeScript SDK, MCP
// Inspector, and the conformance tests of the protocol.
func TestMCPClients(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	node := nodeWithClients(t)
	seed := t.TempDir()
	if err := os.WriteFile(filepath.Join(seed, "hello.txt"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	pyro := fromBin(t, "pyro")
	p := workspaces(t)
	server, at := p.serveMCP("0123456789abcdef")
	run := func(t *testing.T, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), node, args...)
		cmd.Dir, cmd.Env = "mcp", p.command().Env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("node %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	t.Run("typescript over stdio", func(t *testing.T) { run(t, "client.mjs", seed, t.TempDir(), "stdio", pyro, "mcp", "serve") })
	t.Run("typescript over http", func(t *testing.T) { run(t, "client.mjs", seed, t.TempDir(), "http", at, "0123456789abcdef") })
	t.Run("inspector", func(t *testing.T) {
		for _, how := range [][]string{
			{pyro, "mcp", "serve", "--profile", "workspace-core"},
			{at, "--transport", "http", "--header", "Authorization: Bearer 0123456789abcdef"},
		} {
			args := append([]string{inspector, "--cli"}, how...)
			if text := run(t, append(args, "--method", "tools/list")...); !strings.Contains(text, `"workspace_patch_apply"`) {
				t.Error(text)
			}
			if text := run(t, append(args, "--method", "tools/call", "--tool-name", "workspace_list")...); !strings.Contains(text, `"count": 0`) {
				t.Error(text)
			}
		}
	})
	t.Run("conformance", func(t *testing.T) {
		target, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		// The conformance test can't send a token, so a proxy adds the token.
		proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Header.Set("Authorization", "Bearer 0123456789abcdef")
		}})
		defer proxy.Close()
		// The other scenarios need tools of a special server, or optional features that pyro does
		// not have. These are completion, resources, prompts, sampling, elicitation and stored
		// streams.
		for _, scenario := range []string{"server-initialize", "ping", "logging-set-level", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection"} {
			text := run(t, "node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", proxy.URL+"/mcp", "--scenario", scenario, "-o", t.TempDir())
			if !strings.Contains(text, "0 failed") {
				t.Errorf("%s:\n%s", scenario, text)
			}
		}
	})
	server.Process.Signal(os.Interrupt)
	if r := server.end(); r.code != 0 && r.code != 130 || r.stdout != "" {
		t.Errorf("%+v", r)
	}
}

// serveMCP starts an HTTP server and returns its address.
func (p *program) serveMCP(token string) (*running, string) {
	p.t.Helper()
	cmd := p.commandFor(10*patience, "mcp", "serve", "--transport", "http") // it runs until its test ends
	cmd.Env = append(cmd.Env, "PYRO_MCP_TOKEN="+token)
	r := &running{Cmd: cmd, t: p.t, stderr: &bytes.Buffer{}}
	var err error
	if r.out, err = r.StdoutPipe(); err != nil {
		p.t.Fatal(err)
	}
	return r, serving(p.t, cmd)
}

// TestMCPVersions talks to the server in each protocol version, line by line, and checks the
// complete output.
func TestMCPVersions(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := newProgram(t)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01"} {
		who := `"clientInfo":{"name":"t","version":"1"}`
		list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
		begin := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},%s}}`, version, who)
		if version >= "2026-07-28" { // this version has no initialize
			meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`, version)
			begin = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`
			list = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + meta + `}}`
		}
		cmd := p.command("mcp", "serve", "--profile", "vm-run", "--debug")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		answers := json.NewDecoder(out)
		for _, message := range []string{begin, list} {
			fmt.Fprintln(in, message)
			var answer struct {
				Result struct {
					ProtocolVersion   string
					SupportedVersions []string
					Tools             []struct{ Name string }
				}
				Error any
			}
			if err := answers.Decode(&answer); err != nil || answer.Error != nil {
				t.Fatalf("%s: %s: %+v, %v", version, message, answer, err)
			}
			agreed := answer.Result.ProtocolVersion == version || version < "2024" && answer.Result.ProtocolVersion > "2025" || strings.Contains(fmt.Sprint(answer.Result.SupportedVersions), version)
			if message == begin && !agreed || message == list && (len(answer.Result.Tools) != 1 || answer.Result.Tools[0].Name != "vm_run") {
				t.Errorf("%s: %s: %+v", version, message, answer)
			}
			if message == begin && version < "2026-07-28" {
				fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
		}
		in.Close()
		if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
			t.Errorf("%s: it printed %q, %v", version, rest, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
}
