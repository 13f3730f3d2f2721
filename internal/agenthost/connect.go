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

// Outcome says what was done to connect a host.
type Outcome struct {
	File    string // that has the server now
	Already bool   // it had it before: nothing was done
	Was     string // how the server was started before, "" where it was not there
	Kept    string // a copy of the file as it was, where pyro wrote it itself
}

// Change is what Connect and Repair are.
type Change func(h Host, ctx context.Context, home Home, s Server, scope string) (Outcome, error)

// Connect has a host start a server, by the host's own command. Where the host has the server already nothing is done; where it has another of that name, that is
// [fault.Exists]. scope is one of the host's, or "" for the usual one.
func (h Host) Connect(ctx context.Context, home Home, s Server, scope string) (Outcome, error) {
	if !h.Connectable() {
		return Outcome{}, fault.New(fault.Unsupported, "connect", h.Name, "%s has no command for it", h.Title).WithHint("pyro host print-config %s", h.Name)
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
	return out, fault.New(fault.Exists, "connect", h.Name, "%s has %q already, in another way: %s", h.Title, s.Name, has.told()).
		WithHint("pyro host repair %s", h.Name)
}

// Repair has a host start a server, whatever it has under that name now.
func (h Host) Repair(ctx context.Context, home Home, s Server, scope string) (Outcome, error) {
	if !h.Repairable() {
		return Outcome{}, fault.New(fault.Unsupported, "repair", h.Name, "%s has no command for it", h.Title).WithHint("pyro host print-config %s", h.Name)
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
	out.Was = has.told()
	if err := h.run(ctx, home, program, h.remove(s.Name, scope)); err != nil {
		return out, err
	}
	err = h.added(ctx, home, program, s, scope)
	if err != nil && !has.Remote { // better what was there than nothing
		err = errors.Join(err, h.run(context.WithoutCancel(ctx), home, program, h.add(has.Server, scope)))
	}
	return out, err
}

// check checks what is asked, and gives the scope that is meant.
func (h Host) check(s Server, scope string) (string, error) {
	if scope == "" {
		scope = h.scopes[0]
	}
	if !slices.Contains(h.scopes, scope) {
		return "", fault.Newf(fault.Invalid, "the scope of %s is %q: it must be %s", h.Name, scope, strings.Join(h.scopes, " or "))
	}
	return scope, s.Check()
}

// program finds the host's program.
func (h Host) program() (string, error) {
	found, err := exec.LookPath(h.Program)
	if err != nil {
		return "", fault.New(fault.Unavailable, "find", h.Program, "%s is not installed", h.Title).
			WithHint("%s, or without it: pyro host print-config %s", h.Install, h.Name)
	}
	return found, nil
}

// right tells that a host starts this server.
func (e *entry) right(s Server) bool { return !e.Remote && !e.Off && e.Same(s) }

// told is how a host reaches a server, for people. Values of variables are left out: they may be secrets.
func (e *entry) told() string {
	switch {
	case e.Remote:
		return "at a URL"
	case e.Off:
		return "switched off, " + e.String()
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

// has gives the server of a name in a scope, nil where there is none, and the file that it is in or would be.
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

// added adds the server, and looks whether the host has it then.
func (h Host) added(ctx context.Context, home Home, program string, s Server, scope string) error {
	if err := h.run(ctx, home, program, h.add(s, scope)); err != nil {
		return err
	}
	has, file, err := h.has(home, s.Name, scope)
	if err != nil {
		return err
	}
	if has == nil || !has.right(s) {
		return fault.New(fault.Internal, "connect", h.Name, "%s said that it has %q now, and it is not in %s", h.Title, s.Name, file.Path).
			WithHint("pyro host print-config %s", h.Name)
	}
	return nil
}

// The bounds of a host's own command.
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
		if text := strings.TrimSpace(fault.Printable(string(said.kept))); text != "" {
			err = fmt.Errorf("%s", shortened(errors.New(text)))
		}
		return &fault.Error{Op: "run", Subject: line, Kind: kindOf(ctx), Err: err, Hint: "pyro host print-config " + h.Name}
	}
	return nil
}

// kindOf is what it is that a program of others did not do: it is out of time, or it says no.
func kindOf(ctx context.Context) fault.Kind {
	if err := ctx.Err(); err != nil {
		return fault.KindOf(err)
	}
	return fault.Unavailable
}

// command is a program that ends with ctx, and all that it started with it.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// bounded keeps the first bytes that are written to it, and drops the rest.
type bounded struct {
	kept []byte
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(b.most-len(b.kept), len(p))]...)
	return len(p), nil
}

// edit writes the server into the host's own file.
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
		out.Was = has.told()
	}
	was, err := readFile(file.Path)
	if err != nil {
		return out, err
	}
	byHand := fmt.Sprintf("pyro host print-config %s, and put what it prints into %s", h.Name, file.Path)
	if _, commented := standard(was); commented {
		return out, fault.New(fault.Unsupported, "repair", h.Name, "%s has comments, or commas before a bracket, which pyro would not keep", file.Path).WithHint("%s", byHand)
	}
	text, err := setServer(was, s)
	if err != nil {
		return out, fault.New(fault.Corrupt, "repair", h.Name, "%s: %s", file.Path, shortened(err)).WithHint("%s", byHand)
	}
	if out.Kept, err = replaceFile(file.Path, was, text); err != nil {
		return out, &fault.Error{Err: err, Hint: byHand}
	}
	return out, nil
}

// editedFile is the user's file that has the server; else the first that has anything; else the one to make.
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
