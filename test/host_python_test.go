//go:build machine

package test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestHostAgentFromPython has a client that gRPC's own tools made of the proto call every method, over mutual TLS.
func TestHostAgentFromPython(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	certs := p.hostCerts()
	agent, address := p.serveHost(append(certs.served(), "--vcpus", "6", "--memory-mb", "2000", "--disk-mb", "8000")...)
	proto, at := "../proto/hostagent/v1/hostagent.proto", strings.TrimPrefix(address, "https://")
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "host/client.py", proto, at, certs.ours, certs.others, certs.over)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all 29 methods were called") {
		t.Fatalf("%v\n%s\n%s", err, out, agent.stderr)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("after Terminate: %v", err)
	}
}
