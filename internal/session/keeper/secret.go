package keeper

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/session"
)

// askTick is how often it is looked whether a program asks for a password.
const askTick = 10 * time.Millisecond

// typeSecret types a secret, which is hidden in what is printed from then on.
func (k *keeper) typeSecret(ctx context.Context, req session.Request) error {
	value := secret.New(req.Secret)
	if err := session.CheckSecret(value); err != nil {
		return err
	}
	if err := k.unseen(ctx, req); err != nil {
		return err
	}
	k.mu.Lock() // who else types one
	err := k.folder.Hide(value)
	k.mu.Unlock()
	if err != nil {
		return err
	}
	typed := []byte(value.Reveal())
	if !req.NoEnter {
		typed = append(typed, k.enter()...)
	}
	if err := k.in.putSecret(typed); err != nil {
		return err
	}
	if req.From == session.FromPerson {
		if err := k.folder.NoteTyped(); err != nil {
			return err
		}
	}
	k.note(session.Event{Event: "secret", Client: req.Client, Reason: req.From})
	return nil
}

// unseen waits until the terminal does not show what is typed, as when a program asks for a password. What was typed before that is dropped by most that ask.
func (k *keeper) unseen(ctx context.Context, req session.Request) error {
	if req.Shown || k.spec.Backend == session.Workspace { // whose terminal is in the machine
		return nil
	}
	for deadline := time.Now().Add(req.Timeout); ; {
		settings, _ := k.program.foreground()
		if settings != nil && settings.Lflag&unix.ICANON != 0 && settings.Lflag&unix.ECHO == 0 {
			return nil
		}
		if !time.Now().Before(deadline) {
			return fault.Newf(fault.Precondition, "nothing asks for a password: its terminal shows what is typed, or a program reads each key itself; nothing was typed").
				WithHint("see pty_screen; where it is right all the same, give shown")
		}
		select {
		case <-time.After(askTick):
		case <-k.ended:
			return errEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// enter is what the key Enter sends, as far as the terminal makes a line end of it.
func (k *keeper) enter() string {
	if settings, _ := k.program.foreground(); settings != nil && settings.Lflag&unix.ICANON != 0 && settings.Iflag&unix.ICRNL == 0 {
		return "\n"
	}
	return "\r"
}
