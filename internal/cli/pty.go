package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

func newPTY() *cobra.Command {
	cmd := subgroup("pty", "Use the terminals of agents on this host", newPTYList(), newPTYAttach(), newPTYSendSecret())
	cmd.Long = `Agents use terminals of this host through pty-mcp or pyro mcp serve --profile pty. Nothing isolates
them, and they continue when the server ends. These commands let a person list the terminals and
take one over.`
	return cmd
}

// sessions returns the manager of the current user's sessions.
func sessions() (*session.Manager, error) {
	d, err := dirs.Default()
	if err != nil {
		return nil, err
	}
	return &session.Manager{Root: d.Sessions(), Program: os.Executable, Grace: time.Hour}, nil
}

// ptySession is the JSON form of a session.
type ptySession struct {
	SessionID  string             `json:"session_id"`
	Name       string             `json:"name"`
	Owner      string             `json:"owner"`
	Command    string             `json:"command"`
	Cwd        string             `json:"cwd"`
	Backend    session.Backend    `json:"backend"`
	Running    bool               `json:"running"`
	ExitCode   *int               `json:"exit_code"`
	ExitReason session.ExitReason `json:"exit_reason,omitempty"`
	Client     string             `json:"attached_client_id"`
	CreatedAt  time.Time          `json:"created_at"`
	LastActive time.Time          `json:"last_active"`
}

type ptySessions struct {
	Sessions []ptySession `json:"sessions"`
}

func newPTYList() *cobra.Command {
	return command("list", "List the terminals", "List the terminals, the last used first.", "", func(cmd *cobra.Command, _ []string) error {
		m, err := sessions()
		if err != nil {
			return err
		}
		found, err := m.List()
		if err != nil {
			return err
		}
		leases, err := m.Claims()
		if err != nil {
			return err
		}
		all := ptySessions{Sessions: []ptySession{}}
		for _, i := range found {
			all.Sessions = append(all.Sessions, ptySession{
				i.ID, i.Name, i.Owner, i.Command, i.Cwd, i.Backend, i.Running(), i.ExitCode, i.Reason, leases[i.ID].Client, i.CreatedAt, i.LastActive(),
			})
		}
		if wantsJSON(cmd) {
			return printJSON(os.Stdout, all)
		}
		return showSessions(all)
	})
}

func showSessions(all ptySessions) error {
	now := time.Now()
	rows := [][]string{{"ID", "NAME", "OWNER", "STATE", "CLIENT", "LAST USED", "COMMAND"}}
	for _, s := range all.Sessions {
		state := "running"
		if !s.Running {
			state = string(s.ExitReason)
			if s.ExitCode != nil {
				state += fmt.Sprintf(" (%d)", *s.ExitCode)
			}
		}
		rows = append(rows, []string{s.SessionID, orDash(s.Name), orDash(s.Owner), state, orDash(s.Client), ago(now, s.LastActive), oneLine(s.Command)})
	}
	return table(os.Stdout, rows)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return fault.Printable(text)
}

func newPTYAttach() *cobra.Command {
	var key, owner string
	var take bool
	cmd := &cobra.Command{
		Use: "attach NAME", Short: "Open one of the terminals",
		Long: `Show a terminal of an agent in your own terminal. NAME is the name or id of the agent's terminal.
pyro prints the last output of that terminal, sends your input to it, and gives it the size of your
terminal. Ctrl-] detaches; the agent's terminal keeps running.

While you are attached, you have the lease of the agent's terminal, so agents that respect leases
wait. If an agent has the lease, --take takes the lease and returns it at the end.`,
		Example: `  pyro pty attach build
  pyro pty attach build --owner ci --take`,
		Args:              arguments,
		ValidArgsFunction: completeSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			leave, err := controlKey(key)
			if err != nil {
				return usage(cmd, "%s", err)
			}
			if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
				return fault.New(fault.Precondition, "attach to terminal", args[0], "standard input and output are not a terminal").WithHint("pyro pty list")
			}
			m, err := sessions()
			if err != nil {
				return err
			}
			info, err := findSession(m, args[0], owner)
			if err != nil {
				return err
			}
			return attachPerson(cmd.Context(), m, info, take, leave, key)
		},
	}
	f := cmd.Flags()
	f.StringVar(&owner, "owner", "", "choose the terminal of this `OWNER`, if several terminals have the same name")
	f.BoolVar(&take, "take", false, "take the lease from its current client")
	f.StringVar(&key, "detach-key", "ctrl-]", "detach with this `KEY`: ctrl- and a letter or one of [\\]^_")
	return cmd
}

// completeSessions completes the names and IDs of sessions.
func completeSessions(_ *cobra.Command, args []string, typed string) (names []string, _ cobra.ShellCompDirective) {
	m, err := sessions()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := m.List()
	for _, i := range all {
		for _, name := range []string{i.Name, i.ID} {
			if name != "" && strings.HasPrefix(name, typed) {
				names = append(names, cobra.CompletionWithDesc(name, oneLine(i.Command)))
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// findSession finds a session by its ID or name.
func findSession(m *session.Manager, name, owner string) (session.Info, error) {
	if info, err := m.Get(name); err == nil {
		return info, nil
	}
	all, err := m.List()
	if err != nil {
		return session.Info{}, err
	}
	var found []session.Info
	for _, i := range all {
		if i.Name == name && (owner == "" || i.Owner == owner) && i.Running() {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return session.Info{}, fault.New(fault.NotFound, "find terminal", name, "no running terminal has this ID or name").WithHint("pyro pty list")
	case 1:
		return found[0], nil
	}
	return session.Info{}, fault.New(fault.Invalid, "find terminal", name, "%d owners have a terminal with this name", len(found)).WithHint("use --owner or the ID: pyro pty list")
}

// attachPerson attaches a person's terminal to a session until the person detaches or the session
// ends.
func attachPerson(ctx context.Context, m *session.Manager, info session.Info, take bool, leave byte, key string) error {
	me := fmt.Sprintf("person-%d", os.Getpid())
	release, err := claim(ctx, m, info.ID, me, take)
	if err != nil {
		return err
	}
	defer release()
	ctx, signals := endOnSignals(ctx)
	defer signals.stop()
	fmt.Fprintf(os.Stderr, "attached to %s; %s detaches\n", info.ID, key)
	t := openTerminal()
	defer t.restore()
	t.raw()
	sizes := make(chan session.Size)
	go func() {
		for {
			select {
			case s := <-t.tty.Resize:
				select {
				case sizes <- session.Size(s):
				case <-t.stopped:
					return
				}
			case <-t.stopped:
				return
			}
		}
	}()
	left, err := info.Attach(ctx, session.Person{Stdin: os.Stdin, Stdout: os.Stdout, Size: session.Size(t.tty.Size), Resize: sizes, DetachKey: leave})
	t.restore()
	if err != nil {
		return signals.explain(err)
	}
	fmt.Fprintln(os.Stderr)
	what := "it has ended"
	if left {
		what = "it still runs"
	}
	_, err = fmt.Fprintf(os.Stderr, "[pty-attach] session_id=%s name=%s: %s\n", info.ID, orDash(info.Name), what)
	return err
}

// claim claims a session for a person. It returns a function that releases the claim.
func claim(ctx context.Context, m *session.Manager, id, me string, take bool) (release func(), err error) {
	all, err := m.Claims()
	if err != nil {
		return nil, err
	}
	ending := context.WithoutCancel(ctx)
	held := all[id].Client
	switch {
	case held == "":
		return func() { m.Detach(ending, id, me) }, ignoreEnded(m.Attach(ctx, id, me))
	case !take:
		return nil, fault.New(fault.Precondition, "attach to terminal", id, "the client %q has had the lease since %s", held, all[id].Since.Local().Format(time.DateTime)).
			WithHint("pyro pty attach %s --take", id)
	}
	fmt.Fprintf(os.Stderr, "taken over from %q\n", held)
	return func() { m.Handoff(ending, id, me, held, "the person left") }, m.Takeover(ctx, id, me, held, "a person took it over")
}

// ignoreEnded ignores the error for a session that has ended, because a person can still look at
// such a session.
func ignoreEnded(err error) error {
	if fault.KindOf(err) == fault.Precondition {
		return nil
	}
	return err
}
