package hostagent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

const (
	maxTag      = 256      // bytes
	followChunk = 64 << 10 // that are read at once: what a stream holds whose client is slow
	followWait  = 30 * time.Second
	settled     = 200 * time.Millisecond // after which what was sent to a client that is still there has got to it
)

// newTag makes a tag as the control plane makes them.
func newTag(prefix string) string {
	var b [4]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

func checkTag(tag string) error {
	if len(tag) > maxTag || !utf8.ValidString(tag) || fault.Printable(tag) != tag {
		return fault.Newf(fault.Invalid, "the tag %q is none: printable characters, at most %d bytes", fault.Printable(tag[:min(len(tag), 80)]), maxTag)
	}
	return nil
}

// openTagged starts what is found again by a tag. It goes on by itself.
func openTagged(ctx context.Context, m Machine, tag, prefix string, c client.Command) (remote.Shell, error) {
	if err := checkTag(tag); err != nil {
		return remote.Shell{}, err
	}
	if tag == "" {
		tag = newTag(prefix)
	}
	shell, err := m.Open(ctx, tag, c)
	switch fault.KindOf(err) {
	case fault.Exists:
		err = &fault.Error{Err: err, Hint: "take another tag, or come back to the one that has it: PtyAttach without cmd, ConnectProcess"}
	case fault.Exhausted:
		err = &fault.Error{Err: err, Hint: "call PtyKill or KillProcess for one that is not needed"}
	}
	return shell, err
}

// tagged gives what has a tag: on a terminal or in the background, as is wanted.
func tagged(ctx context.Context, m Machine, tag string, inBackground bool) (remote.Shell, error) {
	if tag == "" {
		return remote.Shell{}, fault.Newf(fault.Invalid, "tag is missing")
	}
	if err := checkTag(tag); err != nil {
		return remote.Shell{}, err
	}
	all, err := m.Tagged(ctx, tag)
	switch {
	case err != nil:
		return remote.Shell{}, err
	case len(all) == 0:
		return remote.Shell{}, fault.Newf(fault.NotFound, "no program has the tag %q", tag).WithHint("start one with it: PtyAttach with cmd, StartBackground")
	case all[0].InBackground() && !inBackground:
		return remote.Shell{}, fault.Newf(fault.Precondition, "the program of the tag %q has no terminal", tag).WithHint("call ConnectProcess or KillProcess")
	case !all[0].InBackground() && inBackground:
		return remote.Shell{}, fault.Newf(fault.Precondition, "the program of the tag %q is on a terminal", tag).WithHint("call PtyAttach without cmd, or PtyKill")
	}
	return all[0], nil
}

// errLeaving ends what only watches, which would keep the host agent from ending.
var errLeaving = fault.Newf(fault.Unavailable, "the host agent is ending; the program goes on").WithHint("call again when it is back")

// watching gives a context that ends with ctx, and when the host agent is no longer served.
func (a *Agent) watching(ctx context.Context) (watching context.Context, end context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.leaving, func() { cancel(errLeaving) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// follow sends what a program prints, from a cursor to its end. It asks for more when a piece has been sent: a slow client holds one piece, and is told by the
// offset of the next what it has missed. Where it is to note what the client has taken, that is what was sent a moment ago: a client that goes is not seen to at
// once, and whoever comes back would rather see the last of it twice than never.
func follow(ctx context.Context, m Machine, read remote.ShellRead, note bool, send func(remote.ShellOutput) error) (remote.Shell, error) {
	read.Chars, read.Raw = followChunk, true
	sent, since := read.Cursor, time.Now()
	if note {
		read.Taken = read.Cursor
	}
	for {
		read.Wait = followWait
		if note && read.Taken < read.Cursor {
			read.Wait = settled
		}
		out, err := m.ReadShell(ctx, read)
		if fault.KindOf(err) == fault.Precondition { // it ran a moment ago
			err = fault.Newf(fault.Unavailable, "the sandbox is ending: %w", err).WithHint("call ListSandboxes for the state of the sandbox")
		}
		if err != nil {
			return remote.Shell{}, err
		}
		if len(out.Data) > 0 {
			err = send(out)
		}
		if err != nil || len(out.Data) == 0 && !out.EndedAt.IsZero() {
			return out.Shell, err
		}
		read.Cursor = out.Next
		if now := time.Now(); note && now.Sub(since) >= settled {
			read.Taken, sent, since = sent, out.Next, now
		}
	}
}

// ended tells how a program has ended.
func ended(s remote.Shell) (code int32, why string, err error) {
	if s.Exit == nil {
		return 0, "", fault.Newf(fault.Unavailable, "how it ended was not seen: %s", fault.Printable(s.Broken)).WithHint("call ListSandboxes for the state of the sandbox")
	}
	return int32(s.Exit.Code), whyNot(remote.Exit{Exit: *s.Exit}, client.Command{}), nil
}
