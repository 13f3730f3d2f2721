package test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file contains helpers for tests with third-party clients.

// inspector is the path of the launcher of MCP Inspector, relative to test/mcp.
const inspector = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

// installing is locked while the packages in test/mcp are being installed.
var installing sync.Mutex

// nodeWithClients returns the path of a Node.js that can load the packages in test/mcp. It installs
// the packages if necessary.
func nodeWithClients(t *testing.T) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	lock, err := os.ReadFile("mcp/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	const installed = "mcp/node_modules/.installed"
	if have, _ := os.ReadFile(installed); !bytes.Equal(have, lock) {
		cmd := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		cmd.Dir = "mcp"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
		if err := os.WriteFile(installed, lock, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	node, err := filepath.Abs("mcp/node_modules/node-linux-" + arch + "/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// fromBin returns the absolute path of a program in the folder bin.
func fromBin(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: make build", err)
	}
	return path
}

// serving starts an HTTP server and returns its address.
func serving(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "serving at ")
	if err != nil || !ok {
		t.Fatalf("it said %q: %v", line, err)
	}
	go io.Copy(io.Discard, said)
	return at
}

// unittest runs the tests in a folder of the Python package. The folder must contain at least one
// test.
func unittest(t *testing.T, folder string, env ...string) {
	t.Helper()
	source, err := filepath.Abs("../sdk/python/src")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "-B", "-m", "unittest", "discover", "-v", "-s", folder)
	cmd.Dir = "../sdk/python"
	cmd.Env = append(append(os.Environ(), "PYTHONPATH="+source), env...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`\nRan [1-9][0-9]* tests? in .*\n\nOK\n$`).Match(out) {
		t.Fatalf("%v\n%s", err, out)
	}
}
