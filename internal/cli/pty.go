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
	cmd := subgroup("pty", "Terminals of this host that agents work on", newPTYList(), newPTYAttach(), newPTYSendSecret())
	cmd.Long = `An agent that is served by pyro mcp serve --profile pty, or by pty-mcp, works on terminals of
this host: nothing isolates what it runs there. They go on when the server ends. Here a person
sees them, and takes one over.`
	return cmd
}

// sessions are those of the present user.
func sessions() (*session.Manager, error) {
	d, err := dirs.Default()
	if err != nil {
		return nil, err
	}
	return &session.Manager{Root: d.Sessions(), Program: os.Executable, Grace: time.Hour}, nil
}

// ptySession is a session as --json has it.
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
	return command("list", "List the terminals", "List the terminals, the one that was used last first.", "", func(cmd *cobra.Command, _ []string) error {
		m, err := sessions()
		if err != nil {
			return err
		}
		found, err := m.List()
		if err != nil {
			return err
		}
		leases, err := m.Leases()
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
		Use: "attach NAME", Short: "Take one of the terminals in this one",
		Long: `Take a terminal, by its id or its name, in this one: what it printed last is printed again, what
is typed goes to it, and it gets the size of this one. Meanwhile you have its lease: an agent that
goes by leases reads and types nothing. One that an agent has is taken over with --take, and given
back when you leave. Ctrl-] leaves it; it goes on.`,
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
				return fault.New(fault.Precondition, "attach to terminal", args[0], "the standard input and output are no terminal").WithHint("pyro pty list")
			}
			m, err := sessions()
			if err != nil {
				return err
			}
			info, err := findSession(m, args[0], owner)
			if err != nil {
				return err
			}
			return visit(cmd.Context(), m, info, take, leave, key)
		},
	}
	f := cmd.Flags()
	f.StringVar(&owner, "owner", "", "of several of the name that of this `OWNER`")
	f.BoolVar(&take, "take", false, "take it over from the client that has it")
	f.StringVar(&key, "detach-key", "ctrl-]", "the `KEY` that leaves it: ctrl- and a letter or one of [\\]^_")
	return cmd
}

// completeSessions completes the names and ids of sessions.
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

// findSession finds a session by its id or its name.
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
		return session.Info{}, fault.New(fault.NotFound, "find terminal", name, "none of this id or name runs").WithHint("pyro pty list")
	case 1:
		return found[0], nil
	}
	return session.Info{}, fault.New(fault.Invalid, "find terminal", name, "%d owners have one of this name", len(found)).WithHint("--owner, or the id: pyro pty list")
}

// visit has a person use a session for a while.
func visit(ctx context.Context, m *session.Manager, info session.Info, take bool, leave byte, key string) error {
	me := fmt.Sprintf("person-%d", os.Getpid())
	giveBack, err := lease(ctx, m, info.ID, me, take)
	if err != nil {
		return err
	}
	defer giveBack()
	ctx, signals := endOnSignals(ctx)
	defer signals.stop()
	fmt.Fprintf(os.Stderr, "attached to %s; %s leaves it\n", info.ID, key)
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
	left, err := info.Attach(ctx, session.Person{Stdin: os.Stdin, Stdout: os.Stdout, Size: session.Size(t.tty.Size), Resize: sizes, Leave: leave})
	t.restore()
	if err != nil {
		return signals.explain(err)
	}
	fmt.Fprintln(os.Stderr)
	what := "it has ended"
	if left {
		what = "it goes on"
	}
	_, err = fmt.Fprintf(os.Stderr, "[pty-attach] session_id=%s name=%s: %s\n", info.ID, orDash(info.Name), what)
	return err
}

// lease gives a person the lease of a session, and how it is given back.
func lease(ctx context.Context, m *session.Manager, id, me string, take bool) (giveBack func(), err error) {
	all, err := m.Leases()
	if err != nil {
		return nil, err
	}
	ending := context.WithoutCancel(ctx)
	held := all[id].Client
	switch {
	case held == "":
		return func() { m.Detach(ending, id, me) }, ignoreEnded(m.Attach(ctx, id, me))
	case !take:
		return nil, fault.New(fault.Precondition, "attach to terminal", id, "the client %q has it, since %s", held, all[id].Since.Local().Format(time.DateTime)).
			WithHint("pyro pty attach %s --take", id)
	}
	fmt.Fprintf(os.Stderr, "taken over from %q\n", held)
	return func() { m.Handoff(ending, id, me, held, "the person left") }, m.Takeover(ctx, id, me, held, "a person took it over")
}

// ignoreEnded leaves out that a session has ended: it can be looked at all the same.
func ignoreEnded(err error) error {
	if fault.KindOf(err) == fault.Precondition {
		return nil
	}
	return err
}
