package process

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// maxConns is the maximum number of simultaneous connections. Further clients must wait.
const maxConns = 64

// serve serves connections until the listener is closed.
func (p *sessionProcess) serve(l net.Listener) *sync.WaitGroup {
	var serving sync.WaitGroup
	room := make(chan struct{}, maxConns)
	serving.Go(func() {
		for {
			room <- struct{}{}
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // such as too many open files
				<-room
				time.Sleep(10 * time.Millisecond)
				continue
			}
			serving.Go(func() {
				defer func() { <-room }()
				p.serveConn(session.NewConn(conn))
			})
		}
	})
	return &serving
}

// lastRequestTime is how long open connections can still send a request after the session has
// ended.
const lastRequestTime = 50 * time.Millisecond

// serveConn answers the requests on a connection until the connection closes or the session has
// ended.
func (p *sessionProcess) serveConn(c *session.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer c.Close()
	go func() {
		select {
		case <-p.ended:
			c.SetReadDeadline(time.Now().Add(lastRequestTime))
		case <-ctx.Done():
		}
	}()
	for {
		var req session.Request
		if err := c.Receive(&req); err != nil {
			return
		}
		if req.Op != session.OpCount && req.Op != session.OpEchoes {
			p.output.touch()
		}
		answer, err := p.answer(ctx, req)
		if err != nil {
			report := fault.ReportOf(err)
			answer.Error = &report
		}
		select {
		case <-p.ended:
			answer.Ended = true
		default:
		}
		if c.Send(answer) != nil {
			return
		}
	}
}

// answer performs a request.
func (p *sessionProcess) answer(ctx context.Context, req session.Request) (a session.Answer, err error) {
	switch req.Op {
	case session.OpInput:
		if err = p.typeIn(req); err == nil {
			p.note(session.Event{Event: "write", Client: req.Client, Bytes: len(req.Data)})
		}
	case session.OpSecret:
		err = p.typeSecret(ctx, req)
	case session.OpResize:
		if err = p.resize(req.Cols, req.Rows); err == nil {
			p.note(session.Event{Event: "resize", Client: req.Client, Cols: req.Cols, Rows: req.Rows})
		}
	case session.OpSignal:
		if err = p.signal(req.Signal); err == nil {
			p.note(session.Event{Event: "signal", Client: req.Client, Signal: req.Signal})
		}
	case session.OpWait:
		p.output.wait(ctx, req)
	case session.OpLook:
		a.Look, err = p.look()
	case session.OpCount:
		a.Count = new(session.Count)
		a.Count.Written, a.Count.Refused = p.in.counts()
		a.Count.Hidden = p.hidden()
		a.Count.ApplicationKeys = p.output.applicationKeys()
	case session.OpEchoes:
		a.Echoes, err = p.echoes(req.Cursor)
	case session.OpEnd:
		p.note(session.Event{Event: "close", Client: req.Client})
		p.stop(session.Killed)
		<-p.ended
	default:
		err = fault.Newf(fault.Unsupported, "unknown operation %.40q", req.Op)
	}
	return a, err
}

// signal sends the signal with the given name.
func (p *sessionProcess) signal(name string) error {
	sig, ok := session.Signals[name]
	if !ok {
		return fault.Newf(fault.Invalid, "unsupported signal %.40q", name)
	}
	return p.program.signal(sig, p.in)
}

// look returns the screen.
func (p *sessionProcess) look() (*session.Look, error) {
	p.output.mu.Lock()
	defer p.output.mu.Unlock()
	drawn, err := p.output.screen.draw(p.output.logs[session.Output])
	if err != nil {
		return nil, err
	}
	rows, err := p.folder.RedactLines(drawn.Rows())
	if err != nil {
		return nil, err
	}
	l := &session.Look{Screen: rows, Alternate: drawn.Alternate()}
	l.Row, l.Col = drawn.Cursor()
	l.Hint = p.hint(l.Alternate)
	return l, nil
}
