package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/pty"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/session"
)

// secretPatience is the maximum time to wait for a password prompt.
const secretPatience = 10 * time.Second

func newPTYSendSecret() *cobra.Command {
	var owner string
	var shown, noEnter bool
	cmd := &cobra.Command{
		Use: "send-secret NAME", Short: "Type a secret into one of the terminals",
		Long: `Type a secret and Enter into an agent's terminal that asks for a password. NAME is the name or id of
that terminal. The agent does not see the secret. pyro reads the secret from your own terminal
without echo, or from standard input. It redacts the secret in the output, log and recording of the
agent's terminal.`,
		Example: `  pyro pty send-secret build
  pass show sudo | pyro pty send-secret build`,
		Args:              arguments,
		ValidArgsFunction: completeSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := sessions()
			if err != nil {
				return err
			}
			info, err := findSession(m, args[0], owner)
			if err != nil {
				return err
			}
			ctx, signals := endOnSignals(cmd.Context())
			defer signals.stop()
			value, err := askForSecret(ctx, info)
			if err == nil {
				err = session.CheckSecret(value)
			}
			if err == nil {
				_, err = info.Ask(ctx, session.Request{
					Op: session.OpSecret, Secret: value.Reveal(), Shown: shown, NoEnter: noEnter, Timeout: secretPatience, From: session.FromPerson, Client: fmt.Sprintf("person-%d", os.Getpid()),
				})
			}
			return signals.explain(fault.Wrap(err, "send secret", args[0]))
		},
	}
	f := cmd.Flags()
	f.StringVar(&owner, "owner", "", "choose the terminal of this `OWNER`, if several terminals have the same name")
	f.BoolVar(&shown, "shown", false, "type the secret even if the terminal shows input")
	f.BoolVar(&noEnter, "no-enter", false, "do not type Enter after it")
	return cmd
}

// askForSecret reads a secret. If standard input is a terminal, it reads without echo. Otherwise it
// reads the first line of standard input.
func askForSecret(ctx context.Context, info session.Info) (secret.Value, error) {
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		line, err := bufio.NewReader(io.LimitReader(os.Stdin, session.MaxSecret+2)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return secret.New(strings.TrimRight(line, "\r\n")), err
	}
	state, err := term.GetState(in)
	if err != nil {
		return secret.Value{}, err
	}
	defer term.Restore(in, state)
	if err := noEcho(os.Stdin); err != nil { // before the question, because the answer can follow at once
		return secret.Value{}, err
	}
	fmt.Fprintf(os.Stderr, "Secret for %s of %s, which runs %s: ", info.ID, orDash(info.Owner), oneLine(info.Command))
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		b, err := term.ReadPassword(in)
		read <- line{b, err}
	}()
	select {
	case l := <-read:
		fmt.Fprintln(os.Stderr)
		return secret.New(string(l.text)), l.err
	case <-ctx.Done(): // the goroutine continues to read until the process ends
		fmt.Fprintln(os.Stderr)
		return secret.Value{}, fault.Newf(fault.Canceled, "%w", context.Cause(ctx))
	}
}

// noEcho makes a terminal not show what the user types.
func noEcho(terminal *os.File) error {
	settings, err := pty.Settings(terminal)
	if err != nil {
		return err
	}
	settings.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(int(terminal.Fd()), unix.TCSETS, settings)
}
