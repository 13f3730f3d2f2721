package hostagent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

const (
	maxTag      = 256      // bytes
	followChunk = 64 << 10 // bytes per read, which is also the maximum buffered for a slow client
	followWait  = 30 * time.Second
	// Output that was sent this long ago, to a client that is still connected, counts as received.
	ackDelay = 200 * time.Millisecond
)

// newTag returns a random tag in the control plane's format.
func newTag(prefix string) string {
	var b [4]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

func checkTag(tag string) error {
	if len(tag) > maxTag || !utf8.ValidString(tag) || fault.Printable(tag) != tag {
		return fault.Newf(fault.Invalid, "invalid tag %q: it must be printable and have at most %d bytes", fault.Printable(tag[:min(len(tag), 80)]), maxTag)
	}
	return nil
}

// openTagged starts a program with a tag. Later calls find the program by its tag. The program
// continues after the call.
func openTagged(ctx context.Context, m Machine, tag, prefix string, c program.Command) (workspace.Shell, error) {
	if err := checkTag(tag); err != nil {
		return workspace.Shell{}, err
	}
	if tag == "" {
		tag = newTag(prefix)
	}
	shell, err := m.Open(ctx, tag, c)
	switch fault.KindOf(err) {
	case fault.Exists:
		err = &fault.Error{Err: err, Hint: "use another tag, or connect to the running program: PtyAttach without cmd, or ConnectProcess"}
	case fault.Exhausted:
		err = &fault.Error{Err: err, Hint: "end a program with PtyKill or KillProcess"}
	}
	return shell, err
}

// findTagged returns the program with a tag. A terminal without a tag has its ID as its tag.
// findTagged fails if inBackground is set and the program is on a terminal. It also fails if
// inBackground is not set and the program is in the background.
func findTagged(ctx context.Context, m Machine, tag string, inBackground bool) (workspace.Shell, error) {
	if tag == "" {
		return workspace.Shell{}, fault.Newf(fault.Invalid, "tag is missing")
	}
	if err := checkTag(tag); err != nil {
		return workspace.Shell{}, err
	}
	all, err := m.Tagged(ctx, tag)
	if err == nil && len(all) == 0 {
		all, err = m.Tagged(ctx, "")
		all = slices.DeleteFunc(all, func(s workspace.Shell) bool { return s.InBackground() || s.Tag != "" || s.ID != tag })
	}
	switch {
	case err != nil:
		return workspace.Shell{}, err
	case len(all) == 0:
		return workspace.Shell{}, fault.Newf(fault.NotFound, "no program has the tag %q", tag).WithHint("start one: PtyAttach with cmd, or StartBackground")
	case all[0].InBackground() && !inBackground:
		return workspace.Shell{}, fault.Newf(fault.Precondition, "the program with the tag %q has no terminal", tag).WithHint("call ConnectProcess or KillProcess")
	case !all[0].InBackground() && inBackground:
		return workspace.Shell{}, fault.Newf(fault.Precondition, "the program with the tag %q is on a terminal", tag).WithHint("call PtyAttach without cmd, or PtyKill")
	}
	all[0].Tag = tag
	return all[0], nil
}

// errShutdown ends streams that only observe a program, so that they do not delay the shutdown.
var errShutdown = fault.Newf(fault.Unavailable, "the host agent is shutting down; the program keeps running").WithHint("try again when it is back")

// streamContext returns a context that is done when ctx is done or the host agent shuts down.
func (a *Agent) streamContext(ctx context.Context) (stream context.Context, end context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.draining, func() { cancel(errShutdown) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// follow sends the output of a program until the program ends, starting at a cursor. It reads the
// next chunk only after it has sent the previous one. So for a slow client it buffers only one
// chunk. If output was dropped before it was read, a gap in the offsets shows the client how much
// it missed.
//
// If track is set, follow records how much output the client has received. Output counts as
// received when ackDelay has passed since it was sent, because a lost connection is noticed late. A
// client that reconnects may get the last output twice, but misses none.
func follow(ctx context.Context, m Machine, read workspace.ShellRead, track bool, send func(workspace.ShellOutput) error) (workspace.Shell, error) {
	read.Chars, read.Raw = followChunk, true
	sent, since := read.Cursor, time.Now()
	if track {
		read.Acked = read.Cursor
	}
	for {
		read.Wait = followWait
		if track && read.Acked < read.Cursor {
			read.Wait = ackDelay
		}
		out, err := m.ReadShell(ctx, read)
		if fault.KindOf(err) == fault.Precondition { // the machine ended during the call
			err = fault.Newf(fault.Unavailable, "the sandbox is ending: %w", err).WithHint("call ListSandboxes for the state of the sandbox")
		}
		if err != nil {
			return workspace.Shell{}, err
		}
		if len(out.Data) > 0 {
			err = send(out)
		}
		if err != nil || len(out.Data) == 0 && !out.EndedAt.IsZero() {
			return out.Shell, err
		}
		read.Cursor = out.Next
		if now := time.Now(); track && now.Sub(since) >= ackDelay {
			read.Acked, sent, since = sent, out.Next, now
		}
	}
}

// exitResult returns the exit code of a program that has ended. If the code does not say why the
// program ended, why contains the reason.
func exitResult(s workspace.Shell) (code int32, why string, err error) {
	if s.Exit == nil {
		return 0, "", fault.Newf(fault.Unavailable, "its exit code is unknown: %s", fault.Printable(s.Broken)).WithHint("call ListSandboxes for the state of the sandbox")
	}
	return int32(s.Exit.Code), exitReason(workspace.Exit{Exit: *s.Exit}, program.Command{}), nil
}
