//go:build machine

package test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestHostAgentFromPython has a client that gRPC's own tools made of the proto call every method.
func TestHostAgentFromPython(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := newProgram(t).with("PYRO_HOST_TOKEN", hostToken)
	agent, address := p.serveHost()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "host/client.py", "../proto/hostagent/v1/hostagent.proto", strings.TrimPrefix(address, "http://"), hostToken)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all 29 methods were called") {
		t.Fatalf("%v\n%s\n%s", err, out, agent.stderr)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("after Terminate: %v", err)
	}
}
