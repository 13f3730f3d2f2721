package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Command is what to run.
type Command struct {
	ID      string // by which Signal and Resize know it; empty: random
	Argv    []string
	Env     []string      // NAME=VALUE, added to the agent's own
	Cwd     string        // absolute; empty: the user's home
	User    string        // name or number, optionally :group; empty: root
	TTY     *Terminal     // set: on a terminal, and all output is standard output
	Timeout time.Duration // after which everything that it started is killed; 0: none
	Whole   bool          // with its end that of all that it started has come: what is left is killed
	Started func(pid int) // called once when it runs, which it may never do, with its number in the machine. May be nil

	// From is set where the command runs already, by ID: it is gone on with from there. Of all other fields only Whole counts then. NotFound: the agent does not know it.
	From *Position
}

// Position is how far somebody has come with a command, in bytes since its start: by Exec what was written to out and errs, and what was taken of in.
type Position struct {
	Stdout uint64 `json:"stdout,omitempty"`
	Stderr uint64 `json:"stderr,omitempty"`
	Input  uint64 `json:"input,omitempty"`
}

// Terminal is the terminal of a command.
type Terminal struct {
	Cols, Rows int
	Term       string // TERM; empty: xterm-256color
}

// Exit is how a command ended.
type Exit struct {
	Code         int // 0 to 255; 128 + signal where a signal ended it; 126 and 127 as shells use them where it never ran
	Signal       int
	TimedOut     bool
	StartFailure bool   // it never ran
	Message      string // why it never ran
	Duration     time.Duration
	OutputHeld   bool // something that it left running still held its output open
	OutOfMemory  bool // the kernel killed something in the machine for want of memory
}

// NewID makes an ID for a command.
func NewID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// ackEvery is after how much output its arrival is told to the agent: well below the ring that it keeps, so that it never waits for a word of ours
// that is only late.
const ackEvery = 256 << 10

// Exec runs a command to its end: standard input is read from in to its end (nil: there is none), output is written to out and errs as it comes.
//
// Nothing is lost when the link breaks in between. A slow writer slows the command down; a nil one drops the output. An error of a writer, or of in, ends
// the command and is returned. When ctx ends, everything that the command started is killed. The command is forgotten by the agent when Exec returns.
func (c *Client) Exec(ctx context.Context, command Command, in io.Reader, out, errs io.Writer) (Exit, error) {
	if err := command.check(); err != nil {
		return Exit{}, fault.Wrap(err, "run", "")
	}
	if command.ID == "" {
		command.ID = NewID()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e := &exec{client: c, command: command, stdin: in != nil, streams: [2]cursor{{to: orDiscard(out)}, {to: orDiscard(errs)}}}
	var taken uint64
	if from := command.From; from != nil {
		e.sent, e.known, taken = true, true, from.Input
		e.streams[0].at, e.streams[0].acked, e.streams[1].at, e.streams[1].acked = from.Stdout, from.Stdout, from.Stderr, from.Stderr
	}
	if in != nil {
		// in may never end, and is not ours to close: a feed that waits for it goes when it does.
		e.started = func() {
			go func() {
				if err := e.feed(ctx, in, taken); err != nil {
					stop(err)
				}
			}()
		}
	}
	exit, err := e.run(ctx)
	if err == nil && command.Whole && !exit.StartFailure {
		err = c.Kill(ctx, command.ID)
	}
	e.finish(err)
	return exit, fault.Wrap(err, "run", command.subject())
}

// subject is what an error is about.
func (c *Command) subject() string {
	if c.From != nil {
		return c.ID
	}
	return c.Argv[0]
}

// check refuses what can't be told to an agent.
func (c *Command) check() error {
	if c.From != nil {
		return nil
	}
	if len(c.Argv) == 0 {
		return fault.Newf(fault.Invalid, "there is no command")
	}
	for _, list := range [][]string{c.Argv, c.Env, {c.Cwd, c.User}} {
		for _, s := range list {
			if !utf8.ValidString(s) {
				return fault.Newf(fault.Invalid, "%q is not UTF-8", s)
			}
		}
	}
	return nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// exec is one call of Exec.
type exec struct {
	client  *Client
	command Command
	stdin   bool
	streams [2]cursor // standard output and standard error
	started func()    // called once when the process has been started, may be nil

	releases []string // what the request to start it tells the agent to forget

	sent    bool // the agent may have been asked to start it
	known   bool // the agent has told something of it
	refused bool // what the agent knows by the id is another's
	cut     bool // no session could be opened
}

// cursor is how far one stream has arrived.
type cursor struct {
	to        io.Writer
	at, acked uint64
}

var errWriter = errors.New("the output can't be written")

// run starts the command and follows it, over as many sessions as it takes.
func (e *exec) run(ctx context.Context) (Exit, error) {
	s, err := e.client.live(ctx)
	for attempt := 1; ; attempt++ {
		if err != nil {
			e.cut = ctx.Err() == nil
			return Exit{}, err
		}
		before := e.streams[0].at + e.streams[1].at
		exit, failed := e.attempt(ctx, s)
		if failed == nil {
			return exit, nil
		}
		if e.streams[0].at+e.streams[1].at > before {
			attempt = 1 // it went on in between
		}
		if attempt == maxAttempts || ctx.Err() != nil || !s.lost(failed) {
			return Exit{}, s.because(ctx, failed)
		}
		s, err = e.client.reopen(ctx, s)
	}
}

// attempt runs the command, or what is left of it, over one session.
func (e *exec) attempt(ctx context.Context, s *session) (Exit, error) {
	again, start := e.sent, !e.sent
	e.sent = true
	for try := 1; ; try++ {
		exit, err := e.follow(ctx, s, start)
		if err == nil || !connect.IsWireError(err) || e.known {
			return exit, err
		}
		switch code := connect.CodeOf(err); {
		case try < maxAttempts && !start && code == connect.CodeNotFound:
			start = true // the request never arrived
		case try < maxAttempts && start && again && code == connect.CodeAlreadyExists:
			start = false // it arrived late, over the session that broke
		default:
			e.refused = start && code == connect.CodeAlreadyExists
			return exit, err
		}
	}
}

// follow runs one stream of events to its end: that of the start, or one that goes on.
func (e *exec) follow(ctx context.Context, s *session, start bool) (Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := e.resume
	if start {
		ask = e.start
	}
	stream, err := ask(ctx, s)
	if err != nil {
		return Exit{}, err
	}
	defer stream.Close()
	for stream.Receive() {
		if !e.known {
			e.client.ended.drop(e.releases)
		}
		e.known = true
		exit, err := e.take(ctx, s, stream.Msg())
		if err != nil || exit != nil {
			if exit == nil {
				exit = &Exit{}
			}
			return *exit, err
		}
	}
	if err := stream.Err(); err != nil {
		return Exit{}, err
	}
	return Exit{}, errNoExit
}

// errNoExit says that the events ended without the end of the command.
var errNoExit = errors.New("the agent ended its answer before the command had ended")

// events is what Exec and Follow give.
type events = connect.ServerStreamForClient[agentv1.ExecEvent]

func (e *exec) start(ctx context.Context, s *session) (*events, error) {
	c := e.command
	e.releases = e.client.ended.list()
	req := &agentv1.ExecRequest{
		Release: e.releases,
		ExecId:  c.ID, Argv: c.Argv, Env: c.Env, Cwd: c.Cwd, User: c.User, Stdin: e.stdin,
		TimeoutMs: int64((c.Timeout + time.Millisecond - 1) / time.Millisecond),
	}
	if t := c.TTY; t != nil {
		req.Tty = &agentv1.Terminal{Cols: uint32(t.Cols), Rows: uint32(t.Rows), Term: t.Term}
	}
	return s.rpc.Exec(ctx, connect.NewRequest(req))
}

func (e *exec) resume(ctx context.Context, s *session) (*events, error) {
	return s.rpc.Follow(ctx, connect.NewRequest(&agentv1.FollowRequest{
		ExecId: e.command.ID, StdoutOffset: e.streams[0].at, StderrOffset: e.streams[1].at,
	}))
}

// take takes one event. exit is set with the last.
func (e *exec) take(ctx context.Context, s *session, event *agentv1.ExecEvent) (*Exit, error) {
	if event.Started != nil && e.started != nil {
		e.started()
		e.started = nil
	}
	if event.Started != nil && e.command.Started != nil && event.Exit.GetStartFailure() == agentv1.StartFailure_START_FAILURE_NONE {
		e.command.Started(int(event.Started.Pid))
		e.command.Started = nil
	}
	if len(event.Gaps) > 0 {
		g := event.Gaps[0]
		return nil, corrupt("output from %d to %d was dropped", g.From, g.To)
	}
	if len(event.Outputs) > len(e.streams) {
		return nil, corrupt("%d outputs in one event", len(event.Outputs))
	}
	for _, o := range event.Outputs {
		if err := e.write(o); err != nil {
			return nil, err
		}
	}
	x := event.Exit
	if x == nil {
		return nil, e.ack(ctx, s)
	}
	if x.Code < 0 || x.Code > 255 || x.Signal > 64 || x.DurationMs < 0 || x.DurationMs > maxDuration {
		return nil, corrupt("an exit code of %d by signal %d after %d ms", x.Code, x.Signal, x.DurationMs)
	}
	return &Exit{
		Code: int(x.Code), Signal: int(x.Signal), TimedOut: x.TimedOut, StartFailure: x.StartFailure != agentv1.StartFailure_START_FAILURE_NONE,
		Message: text(x.Message, 1024), Duration: time.Duration(x.DurationMs) * time.Millisecond, OutputHeld: x.OutputHeld, OutOfMemory: x.OutOfMemory,
	}, nil
}

// maxDuration is what a [time.Duration] can hold, in milliseconds.
const maxDuration = math.MaxInt64 / int64(time.Millisecond)

func (e *exec) write(o *agentv1.Output) error {
	if int(o.Stream) < 0 || int(o.Stream) >= len(e.streams) {
		return corrupt("output of stream %d", o.Stream)
	}
	c := &e.streams[o.Stream]
	if o.Offset != c.at || len(o.Data) == 0 {
		return corrupt("%d bytes of output at %d, where %d comes next", len(o.Data), o.Offset, c.at)
	}
	if _, err := c.to.Write(o.Data); err != nil {
		return fmt.Errorf("%w: %w", errWriter, err)
	}
	c.at += uint64(len(o.Data))
	return nil
}

// ack tells the agent what has arrived, when that is enough to be worth a message.
func (e *exec) ack(ctx context.Context, s *session) error {
	if e.streams[0].at-e.streams[0].acked+e.streams[1].at-e.streams[1].acked < ackEvery {
		return nil
	}
	_, err := s.rpc.Ack(ctx, connect.NewRequest(&agentv1.AckRequest{
		ExecId: e.command.ID, StdoutOffset: e.streams[0].at, StderrOffset: e.streams[1].at,
	}))
	if err == nil {
		e.streams[0].acked, e.streams[1].acked = e.streams[0].at, e.streams[1].at
	}
	return err
}

// inputChunk is how much input goes in one message.
const inputChunk = 64 << 10

// feed passes the input on from an offset, to its end or until the process takes no more. It is a nil error too when ctx has ended, with the command or before.
func (e *exec) feed(ctx context.Context, in io.Reader, offset uint64) error {
	buffer := make([]byte, inputChunk)
	for {
		n, err := in.Read(buffer)
		if err != nil && err != io.EOF {
			return fault.Wrap(err, "read the input", "")
		}
		next := offset + uint64(n)
		req := &agentv1.InputRequest{ExecId: e.command.ID, Offset: offset, Data: buffer[:n], Eof: err == io.EOF}
		var closed bool
		failed := e.client.do(ctx, func(ctx context.Context, s *session) error {
			r, err := s.rpc.Input(ctx, connect.NewRequest(req))
			if err == nil && !r.Msg.Closed && r.Msg.Accepted != next {
				err = corrupt("input up to %d was taken, where %d was sent", r.Msg.Accepted, next)
			}
			closed = err == nil && r.Msg.Closed
			return err
		})
		if ctx.Err() != nil || failed != nil || closed || err == io.EOF {
			return failed
		}
		offset = next
	}
}

// finishPatience bounds what is done after a command, for which its caller's context no longer counts.
const finishPatience = 2 * time.Second

// finish has the agent forget a command that has ended, and kills one that was not waited for. There is nobody to tell when that fails: the link is lost
// then.
func (e *exec) finish(failed error) {
	if e.refused || e.cut || !e.sent {
		return
	}
	if failed == nil && e.client.ended.add(e.command.ID) {
		return // the next command tells the agent so
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishPatience)
	defer cancel()
	// Once the id is released, a request to start it that is still under way starts nothing: so what is to be killed is there to be killed.
	err := e.client.release(ctx, e.command.ID)
	if failed != nil && err == nil {
		e.client.Kill(ctx, e.command.ID)
	}
}
