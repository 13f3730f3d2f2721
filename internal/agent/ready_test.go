package agent

import (
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// TestReadyNamesTheReason checks that the error says why a port is not ready. A probe that begins
// at the time limit must not replace the reason.
func TestReadyNamesTheReason(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			_, err := new(Server).Ready(t.Context(), connect.NewRequest(&agentv1.ReadyRequest{Tcp: "127.0.0.1:1", LimitMs: 20, IntervalMs: 1}))
			if err == nil || !strings.Contains(err.Error(), "connection refused") {
				t.Fatal(err)
			}
		})
	}
}
