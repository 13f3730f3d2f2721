package process

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/session"
)

// askTick is the interval between two checks for a password prompt.
const askTick = 10 * time.Millisecond

// typeSecret types a secret. It first makes sure that later output is redacted.
func (p *sessionProcess) typeSecret(ctx context.Context, req session.Request) error {
	value := secret.New(req.Secret)
	if err := session.CheckSecret(value); err != nil {
		return err
	}
	if err := p.awaitNoEcho(ctx, req); err != nil {
		return err
	}
	p.mu.Lock() // one secret at a time
	err := p.folder.AddSecret(value)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	typed := []byte(value.Reveal())
	if !req.NoEnter {
		typed = append(typed, p.enter()...)
	}
	if err := p.in.typeHidden(typed); err != nil {
		return err
	}
	if req.From == session.FromPerson {
		if err := p.folder.MarkTyped(); err != nil {
			return err
		}
	}
	p.note(session.Event{Event: "secret", Client: req.Client, Reason: req.From})
	return nil
}

// awaitNoEcho waits until echo is off, as at a password prompt. Most programs that turn echo off
// drop earlier input.
func (p *sessionProcess) awaitNoEcho(ctx context.Context, req session.Request) error {
	if req.Shown || p.spec.Backend == session.Workspace { // the terminal of a workspace session is in the machine
		return nil
	}
	for deadline := time.Now().Add(req.Timeout); ; {
		settings, _ := p.program.foreground()
		if settings != nil && settings.Lflag&unix.ICANON != 0 && settings.Lflag&unix.ECHO == 0 {
			return nil
		}
		if !time.Now().Before(deadline) {
			return fault.Newf(fault.Precondition, "nothing asks for a password: the terminal echoes input, or a program reads single keys; nothing was typed").
				WithHint("see pty_screen; set shown to type it anyway")
		}
		select {
		case <-time.After(askTick):
		case <-p.ended:
			return errEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// enter returns the key that ends a line on this terminal.
func (p *sessionProcess) enter() string {
	if settings, _ := p.program.foreground(); settings != nil && settings.Lflag&unix.ICANON != 0 && settings.Iflag&unix.ICRNL == 0 {
		return "\n"
	}
	return "\r"
}
