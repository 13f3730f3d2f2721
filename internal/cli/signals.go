package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// signals are those that reach pyro while a command runs. The first Ctrl-C is passed on to the command; the second, and every other signal that asks pyro to
// end, ends the run, and with it the machine.
type signals struct {
	forwarded chan syscall.Signal // nil where there is no command to ask
	tell      bool
	received  chan os.Signal
	broken    chan os.Signal
	last      atomic.Int32
}

// watchSignals watches until stop, for a command that can be asked. The context that it gives is cancelled by a signal that ends the run.
func watchSignals(ctx context.Context, quiet bool) (context.Context, *signals) {
	return watch(ctx, &signals{forwarded: make(chan syscall.Signal, 1), tell: !quiet && term.IsTerminal(int(os.Stderr.Fd()))})
}

// endOnSignals watches for work of pyro's own, which any signal ends.
func endOnSignals(ctx context.Context) (context.Context, *signals) {
	return watch(ctx, &signals{})
}

func watch(ctx context.Context, s *signals) (context.Context, *signals) {
	s.received, s.broken = make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(s.received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	// Without this, writing to a closed pipe would kill pyro before it has tidied up. The write fails with EPIPE all the same, which ends the run.
	signal.Notify(s.broken, syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		defer cancel(nil)
		for received := range s.received {
			sig := received.(syscall.Signal)
			again := s.last.Swap(int32(sig)) != 0
			if s.forwarded == nil || sig != syscall.SIGINT || again {
				cancel(fmt.Errorf("ended by signal: %s", sig))
				continue
			}
			s.forwarded <- sig
			if s.tell {
				fmt.Fprintln(os.Stderr, "\npyro: asked the command to end; Ctrl-C again kills it")
			}
		}
	}()
	return ctx, s
}

// stop gives the signals their usual meaning again.
func (s *signals) stop() {
	signal.Stop(s.received)
	signal.Stop(s.broken)
	close(s.received)
}

// explain gives an error of a run its exit code where a signal or a closed pipe was behind it.
func (s *signals) explain(err error) error {
	if sig := s.last.Load(); sig != 0 && fault.KindOf(err) == fault.Canceled {
		return exit{128 + int(sig), err}
	}
	if errors.Is(err, syscall.EPIPE) {
		return exit{code: 128 + int(syscall.SIGPIPE)} // nobody is left to read more, as after `pyro run … | head`
	}
	return err
}
