package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// signals handles the signals that pyro receives while a command runs. It forwards the first Ctrl-C
// to the command in the machine. A second Ctrl-C, and every other signal that asks pyro to exit,
// cancels the run.
type signals struct {
	forwarded chan syscall.Signal // nil if no command runs
	verbose   bool
	received  chan os.Signal
	broken    chan os.Signal
	last      atomic.Int32
}

// watchSignals handles signals for a command in a machine until stop is called. If a signal cancels
// the run, it cancels the returned context.
func watchSignals(ctx context.Context, quiet bool) (context.Context, *signals) {
	return watch(ctx, &signals{forwarded: make(chan syscall.Signal, 1), verbose: !quiet && term.IsTerminal(int(os.Stderr.Fd()))})
}

// endOnSignals handles signals for other work. Every signal cancels the returned context.
func endOnSignals(ctx context.Context) (context.Context, *signals) {
	return watch(ctx, &signals{})
}

func watch(ctx context.Context, s *signals) (context.Context, *signals) {
	s.received, s.broken = make(chan os.Signal, 4), make(chan os.Signal, 1)
	// nohup and background jobs of scripts ignore some signals.
	signal.Notify(s.received, program.NotIgnored(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)...)
	// Without a handler for SIGPIPE, a write to a closed pipe kills pyro before it cleans up. With
	// a handler, the write fails with EPIPE, which Main treats as the signal.
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
			if s.verbose {
				fmt.Fprintln(os.Stderr, "\npyro: asked the command to end; Ctrl-C again kills it")
			}
		}
	}()
	return ctx, s
}

// stop restores the default handling of signals.
func (s *signals) stop() {
	signal.Stop(s.received)
	signal.Stop(s.broken)
	close(s.received)
}

// explain returns an error with the exit code for the signal that caused the error.
func (s *signals) explain(err error) error {
	if sig := s.last.Load(); sig != 0 && fault.KindOf(err) == fault.Canceled {
		return exit{128 + int(sig), err}
	}
	return err
}
