package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// ackEvery is how many bytes of output the client receives before it sends an acknowledgement. It
// is well below the buffer size of the agent, so that a late acknowledgement does not block the
// command.
const ackEvery = 256 << 10

// Exec runs a command until it ends. A broken link neither loses nor repeats input or output. If
// ctx ends, Exec kills everything that the command started. After Exec returns, the agent forgets
// the command, at the latest with the next start request.
func (c *Client) Exec(ctx context.Context, command program.Command, to program.Attach) (program.Exit, error) {
	if err := command.Check(); err != nil {
		return program.Exit{}, fault.Wrap(err, "run", "")
	}
	if command.ID == "" {
		command.ID = program.NewID()
	}
	return c.exec(ctx, &exec{client: c, command: command, subject: command.Argv[0], attach: to}, 0)
}

// Resume is like Exec, for a command that another client has started. It continues at the position
// that the other client reached. It uses only the fields ID and KillRest of the command. NotFound:
// the agent does not know the command.
func (c *Client) Resume(ctx context.Context, command program.Command, from program.Position, to program.Attach) (program.Exit, error) {
	e := &exec{client: c, command: command, subject: command.ID, attach: to, sent: true, known: true}
	e.streams[0].at, e.streams[0].acked = from.Stdout, from.Stdout
	e.streams[1].at, e.streams[1].acked = from.Stderr, from.Stderr
	return c.exec(ctx, e, from.Stdin)
}

// exec runs e until the command ends. inputSent is the offset of the first input byte that the
// agent does not have.
func (c *Client) exec(ctx context.Context, e *exec, inputSent uint64) (program.Exit, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e.streams[0].to, e.streams[1].to = orDiscard(e.attach.Stdout), orDiscard(e.attach.Stderr)
	if in := e.attach.Stdin; in != nil {
		// Read can block forever, and the reader belongs to the caller. So the goroutine can live
		// as long as the reader.
		e.feed = func() {
			go func() {
				if err := e.sendInput(ctx, in, inputSent); err != nil {
					stop(err)
				}
			}()
		}
	}
	exit, err := e.run(ctx)
	if err == nil && e.command.KillRest && exit.NotRun == "" {
		err = c.Kill(ctx, e.command.ID)
	}
	e.finish(err)
	return exit, fault.Wrap(err, "run", e.subject)
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// exec is one call of Exec or Resume.
type exec struct {
	client  *Client
	command program.Command
	subject string // the subject of errors
	attach  program.Attach
	streams [2]cursor // stdout and stderr
	feed    func()    // starts sending the input; nil without input or after its call

	releases []string // commands that the start request releases

	sent    bool // the start request might have arrived.
	known   bool // an event about the command has arrived.
	refused bool // another command already uses the ID.
	cut     bool // no session could be opened, so the agent can't be reached.
}

// cursor is the progress of one output stream: how many bytes were received and how many
// acknowledged.
type cursor struct {
	to        io.Writer
	at, acked uint64
}

var errWriter = errors.New("the output can't be written")

// run starts the command and follows it. If the link breaks, run opens a new session and continues.
func (e *exec) run(ctx context.Context) (program.Exit, error) {
	s, err := e.client.live(ctx)
	for attempt := 1; ; attempt++ {
		if err != nil {
			e.cut = ctx.Err() == nil
			return program.Exit{}, err
		}
		before := e.streams[0].at + e.streams[1].at
		exit, failed := e.attempt(ctx, s)
		if failed == nil {
			return exit, nil
		}
		if e.streams[0].at+e.streams[1].at > before {
			attempt = 1 // there was progress, so all attempts are available again
		}
		if attempt == maxAttempts || ctx.Err() != nil || !s.lost(failed) {
			return program.Exit{}, s.errorOf(ctx, failed)
		}
		s, err = e.client.reopen(ctx, s)
	}
}

// attempt starts the command, or continues to follow it, in one session.
func (e *exec) attempt(ctx context.Context, s *session) (program.Exit, error) {
	again, start := e.sent, !e.sent
	e.sent = true
	for try := 1; ; try++ {
		exit, err := e.follow(ctx, s, start)
		if err == nil || !connect.IsWireError(err) || e.known {
			return exit, err
		}
		switch code := connect.CodeOf(err); {
		case try < maxAttempts && !start && code == connect.CodeNotFound:
			start = true // the agent never received the start request
		case try < maxAttempts && start && again && code == connect.CodeAlreadyExists:
			start = false // the start request of the broken session arrived late
		default:
			e.refused = start && code == connect.CodeAlreadyExists
			return exit, err
		}
	}
}

// follow sends a start request or a follow request. It reads the events of the response until the
// command ends.
func (e *exec) follow(ctx context.Context, s *session, start bool) (program.Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := e.resume
	if start {
		request = e.start
	}
	stream, err := request(ctx, s)
	if err != nil {
		return program.Exit{}, err
	}
	defer stream.Close()
	for stream.Receive() {
		if !e.known {
			e.client.ended.drop(e.releases)
		}
		e.known = true
		exit, err := e.handle(ctx, s, stream.Msg())
		if err != nil || exit != nil {
			if exit == nil {
				exit = &program.Exit{}
			}
			return *exit, err
		}
	}
	if err := stream.Err(); err != nil {
		return program.Exit{}, err
	}
	return program.Exit{}, errNoExit
}

// errNoExit is the error for a response that ends without an exit event.
var errNoExit = errors.New("the agent ended the response before the command ended")

// events is the response of Exec and Follow.
type events = connect.ServerStreamForClient[agentv1.ExecEvent]

func (e *exec) start(ctx context.Context, s *session) (*events, error) {
	e.releases = e.client.ended.list()
	req := &agentv1.ExecRequest{Release: e.releases, Command: e.command.Encode(e.attach.Stdin != nil)}
	return s.rpc.Exec(ctx, connect.NewRequest(req))
}

func (e *exec) resume(ctx context.Context, s *session) (*events, error) {
	return s.rpc.Follow(ctx, connect.NewRequest(&agentv1.FollowRequest{
		ExecId: e.command.ID, StdoutOffset: e.streams[0].at, StderrOffset: e.streams[1].at,
	}))
}

// handle handles one event. It returns the exit status if the event contains one, and otherwise
// nil.
func (e *exec) handle(ctx context.Context, s *session, event *agentv1.ExecEvent) (*program.Exit, error) {
	if event.Started != nil {
		e.begin(int(event.Started.Pid), event.Exit.GetNotRun() == "")
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
	exit, err := program.DecodeExit(x)
	return &exit, fault.Wrap(err, "understand the agent", "")
}

// begin starts sending the input. If the program runs, begin also calls Attach.Started.
func (e *exec) begin(pid int, runs bool) {
	if e.feed != nil {
		e.feed()
		e.feed = nil
	}
	if e.attach.Started != nil && runs {
		e.attach.Started(program.NewProcess(e.client, e.command.ID, pid))
		e.attach.Started = nil
	}
}

func (e *exec) write(o *agentv1.Output) error {
	if int(o.Stream) < 0 || int(o.Stream) >= len(e.streams) {
		return corrupt("output of unknown stream %d", o.Stream)
	}
	c := &e.streams[o.Stream]
	if o.Offset != c.at || len(o.Data) == 0 {
		return corrupt("%d bytes of output at offset %d, expected offset %d", len(o.Data), o.Offset, c.at)
	}
	if _, err := c.to.Write(o.Data); err != nil {
		return fmt.Errorf("%w: %w", errWriter, err)
	}
	c.at += uint64(len(o.Data))
	return nil
}

// ack acknowledges the received output when at least ackEvery bytes are unacknowledged.
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

// inputChunk is the maximum amount of input in one message, in bytes.
const inputChunk = 64 << 10

// sendInput sends input to the command, starting at offset. It returns when the input ends or the
// process stops reading it. It also returns when ctx ends.
func (e *exec) sendInput(ctx context.Context, in io.Reader, offset uint64) error {
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
				err = corrupt("input accepted up to offset %d, expected offset %d", r.Msg.Accepted, next)
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

const (
	finishPatience = 2 * time.Second // how long the caller of finish waits
	killPatience   = time.Minute     // how long finish tries to kill an abandoned command
)

// finish releases a command that has ended, and kills one that was abandoned. It does not use the
// caller's context, which might have ended. If the agent is slow, finish continues in the
// background until killPatience has passed or the client is closed. It ignores errors, because they
// mean that the link is lost.
func (e *exec) finish(failed error) {
	if e.refused || e.cut || !e.sent {
		return
	}
	if failed == nil && e.client.ended.add(e.command.ID) {
		return // the next start request releases it
	}
	finished, cancel := context.WithTimeout(context.Background(), finishPatience)
	defer cancel()
	go func() {
		defer cancel()
		ctx, end := context.WithTimeout(e.client.life, killPatience)
		defer end()
		// After the release, the agent ignores a delayed start request. So the command can't start
		// after the kill.
		err := e.client.release(ctx, e.command.ID)
		if failed != nil && err == nil {
			e.client.Kill(ctx, e.command.ID)
		}
	}()
	<-finished.Done()
}
