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
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/session"
)

// secretPatience is how long a terminal may take to ask for a password.
const secretPatience = 10 * time.Second

func newPTYSendSecret() *cobra.Command {
	var owner string
	var shown, noEnter bool
	cmd := &cobra.Command{
		Use: "send-secret NAME", Short: "Type a secret into one of the terminals",
		Long: `Type a secret, and Enter, into a terminal, by its id or its name, that asks for a password: the agent
that works on it does not see it. It is read from this terminal, which does not show it, or from the
standard input. From then on it is hidden in what the terminal prints, in its log, in its recording.`,
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
	f.StringVar(&owner, "owner", "", "of several of the name that of this `OWNER`")
	f.BoolVar(&shown, "shown", false, "type it also where the terminal shows what is typed")
	f.BoolVar(&noEnter, "no-enter", false, "type no Enter after it")
	return cmd
}

// askForSecret reads a secret from the terminal, which does not show it, or the first line of the standard input.
func askForSecret(ctx context.Context, info session.Info) (secret.Value, error) {
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		line, err := bufio.NewReader(io.LimitReader(os.Stdin, session.MaxSecret+2)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return secret.New(strings.TrimRight(line, "\r\n")), err
	}
	fmt.Fprintf(os.Stderr, "Secret for %s of %s, which runs %s: ", info.ID, orDash(info.Owner), oneLine(info.Command))
	state, err := term.GetState(in)
	if err != nil {
		return secret.Value{}, err
	}
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
	case <-ctx.Done(): // the reading goes on until the process ends
		fmt.Fprintln(os.Stderr)
		return secret.Value{}, errors.Join(fault.Newf(fault.Canceled, "%w", context.Cause(ctx)), term.Restore(in, state))
	}
}
