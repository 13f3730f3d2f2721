package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestUnknownUser checks that a program with an unknown user fails immediately, with an error that
// names the user.
func TestUnknownUser(t *testing.T) {
	t.Parallel()
	_, c := live(t)
	command := sh("true")
	command.User = "carl"
	for name, start := range map[string]func() error{
		"a command": func() error {
			_, err := c.Exec(t.Context(), command, program.Attach{})
			return err
		},
		"a detached command": func() error {
			_, err := c.StartCommand(t.Context(), command)
			return err
		},
		"a shell": func() error {
			shell := command
			shell.TTY = &program.Terminal{Cols: 80, Rows: 24}
			_, err := c.OpenPrompting(t.Context(), shell)
			return err
		},
		"a service": func() error {
			return c.StartService(t.Context(), "web", remote.ServiceStart{Command: command, Restart: store.RestartAlways})
		},
	} {
		testenv.Eventually(t, name+" fails without waiting for the end of the machine", func() bool {
			began := time.Now()
			err := start()
			took := time.Since(began)
			if fault.KindOf(err) != fault.Invalid || !strings.HasSuffix(err.Error(), `user "carl": no such user`) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			return took < endPatience
		})
	}
}
