package agenthost

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Outcome is the result of Connect or Repair.
type Outcome struct {
	File     string // path of the file that contains the server.
	Already  bool   // the server was already configured, so nothing changed.
	Previous string // the previous configuration, or "" if there was none
	Backup   string // path of a copy of the previous file, if pyro itself changed the file
}

// Change is the signature of the methods Connect and Repair.
type Change func(h Host, ctx context.Context, home Home, s Server, scope string) (Outcome, error)

// Connect adds a server to a host's configuration by running the host's own command. If the host
// already has this server, Connect does nothing. If the host has another server with the same name,
// Connect returns a [fault.Exists] error. scope is one of the host's scopes. An empty scope selects
// the host's default scope.
func (h Host) Connect(ctx context.Context, home Home, s Server, scope string) (Outcome, error) {
	if !h.Connectable() {
		return Outcome{}, fault.New(fault.Unsupported, "connect", h.Name, "%s has no command to add servers", h.Title).WithHint("pyro host print-config %s", h.Name)
	}
	scope, err := h.check(s, scope)
	if err != nil {
		return Outcome{}, err
	}
	program, err := h.program()
	if err != nil {
		return Outcome{}, err
	}
	has, file, err := h.has(home, s.Name, scope)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{File: file.Path}
	switch {
	case has == nil:
		return out, h.added(ctx, home, program, s, scope)
	case has.right(s):
		out.Already = true
		return out, nil
	}
	return out, fault.New(fault.Exists, "connect", h.Name, "%s already has %q with a different configuration: %s", h.Title, s.Name, has.describe()).
		WithHint("pyro host repair %s", h.Name)
}

// Repair is like Connect, but it replaces another server with the same name.
func (h Host) Repair(ctx context.Context, home Home, s Server, scope string) (Outcome, error) {
	if !h.Repairable() {
		return Outcome{}, fault.New(fault.Unsupported, "repair", h.Name, "%s has no command to add servers", h.Title).WithHint("pyro host print-config %s", h.Name)
	}
	scope, err := h.check(s, scope)
	if err != nil {
		return Outcome{}, err
	}
	if h.editable() {
		return h.edit(home, s)
	}
	program, err := h.program()
	if err != nil {
		return Outcome{}, err
	}
	has, file, err := h.has(home, s.Name, scope)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{File: file.Path}
	if has == nil {
		return out, h.added(ctx, home, program, s, scope)
	}
	if has.right(s) {
		out.Already = true
		return out, nil
	}
	out.Previous = has.describe()
	if err := h.run(ctx, home, program, h.remove(s.Name, scope)); err != nil {
		return out, err
	}
	err = h.added(ctx, home, program, s, scope)
	if err != nil && !has.Remote { // restore the previous configuration
		err = errors.Join(err, h.run(context.WithoutCancel(ctx), home, program, h.add(has.Server, scope)))
	}
	return out, err
}

// check validates the arguments and returns the scope to use.
func (h Host) check(s Server, scope string) (string, error) {
	if scope == "" {
		scope = h.scopes[0]
	}
	if !slices.Contains(h.scopes, scope) {
		return "", fault.Newf(fault.Invalid, "the scope of %s is %q: it must be %s", h.Name, scope, strings.Join(h.scopes, " or "))
	}
	return scope, s.Check()
}

// program returns the path of the host's program.
func (h Host) program() (string, error) {
	found, err := exec.LookPath(h.Program)
	if err != nil {
		return "", fault.New(fault.Unavailable, "find", h.Program, "%s is not installed", h.Title).
			WithHint("%s, or without it: pyro host print-config %s", h.Install, h.Name)
	}
	return found, nil
}

// right reports whether the host starts exactly the server s.
func (e *entry) right(s Server) bool { return !e.Remote && !e.Disabled && e.Same(s) }

// describe describes an entry for users. It omits the values of variables, because the values can
// be secrets.
func (e *entry) describe() string {
	switch {
	case e.Remote:
		return "at a URL"
	case e.Disabled:
		return "disabled, " + e.String()
	case len(e.Env) > 0:
		var names []string
		for _, variable := range e.environment() {
			name, _, _ := strings.Cut(variable, "=")
			names = append(names, fault.Printable(name))
		}
		return e.String() + ", with " + strings.Join(names, ", ")
	}
	return e.String()
}

// has returns the server with the given name in a scope, or nil if there is none. It also returns
// the configuration file for that scope.
func (h Host) has(home Home, name, scope string) (*entry, File, error) {
	files := h.files(home)
	i := slices.IndexFunc(files, func(f File) bool { return f.Scope == scope })
	found, err := h.form.entries(files[i], name)
	if err != nil {
		return nil, files[i], err
	}
	for _, e := range found {
		if e.Name == name {
			return &e, files[i], nil
		}
	}
	return nil, files[i], nil
}

// added adds the server and verifies that the host's file contains it.
func (h Host) added(ctx context.Context, home Home, program string, s Server, scope string) error {
	if err := h.run(ctx, home, program, h.add(s, scope)); err != nil {
		return err
	}
	has, file, err := h.has(home, s.Name, scope)
	if err != nil {
		return err
	}
	if has == nil || !has.right(s) {
		return fault.New(fault.Internal, "connect", h.Name, "%s reported success, but %q is not in %s", h.Title, s.Name, file.Path).
			WithHint("pyro host print-config %s", h.Name)
	}
	return nil
}

// Limits on a run of the host's own command.
const (
	runTime   = time.Minute
	runOutput = 64 << 10
)

// run runs the host's own command.
func (h Host) run(ctx context.Context, home Home, program string, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	said := &bounded{most: runOutput}
	cmd := command(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = home.Work, said, said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		line := Server{Command: h.Program, Args: args}.String()
		if text := strings.TrimSpace(fault.Printable(string(said.data))); text != "" {
			err = fmt.Errorf("%s", shortened(errors.New(text)))
		}
		return &fault.Error{Op: "run", Subject: line, Kind: kindOf(ctx), Err: err, Hint: "pyro host print-config " + h.Name}
	}
	return nil
}

// kindOf returns the error kind for a host's command that failed. The command timed out, or it
// refused the change.
func kindOf(ctx context.Context) fault.Kind {
	if err := ctx.Err(); err != nil {
		return fault.KindOf(err)
	}
	return fault.Unavailable
}

// command returns a command. When ctx is done, the command and all its children are killed.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// bounded is a writer that stores the first bytes and discards the rest.
type bounded struct {
	data []byte
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(b.most-len(b.data), len(p))]...)
	return len(p), nil
}

// edit writes the server into the host's configuration file.
func (h Host) edit(home Home, s Server) (Outcome, error) {
	file, has, err := h.editedFile(home, s.Name)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{File: file.Path}
	if has != nil {
		if has.right(s) {
			out.Already = true
			return out, nil
		}
		out.Previous = has.describe()
	}
	was, err := readFile(file.Path)
	if err != nil {
		return out, err
	}
	byHand := fmt.Sprintf("pyro host print-config %s, and add its output to %s", h.Name, file.Path)
	if _, commented := standard(was); commented {
		return out, fault.New(fault.Unsupported, "repair", h.Name, "%s has comments or trailing commas, which pyro can't preserve", file.Path).WithHint("%s", byHand)
	}
	text, err := setServer(was, s)
	if err != nil {
		return out, fault.New(fault.Corrupt, "repair", h.Name, "%s: %s", file.Path, shortened(err)).WithHint("%s", byHand)
	}
	if out.Backup, err = replaceFile(file.Path, was, text); err != nil {
		return out, &fault.Error{Err: err, Hint: byHand}
	}
	return out, nil
}

// editedFile returns the user's file that contains the server. If no file contains it, editedFile
// returns the first file that is not empty. If all files are empty or missing, it returns the file
// to create.
func (h Host) editedFile(home Home, name string) (edited File, has *entry, err error) {
	for _, file := range h.files(home) {
		if file.Scope != ScopeUser {
			continue
		}
		found, err := h.form.entries(file, name)
		if err != nil {
			return file, nil, err
		}
		for _, e := range found {
			if e.Name == name {
				return file, &e, nil
			}
		}
		if text, err := readFile(file.Path); err == nil && text != nil && edited.Path == "" {
			edited = file
		}
	}
	if edited.Path == "" {
		edited = h.files(home)[0]
	}
	return edited, nil, nil
}
