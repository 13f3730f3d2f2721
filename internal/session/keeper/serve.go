package keeper

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// maxConns is how many connections there are at once. Who comes then waits.
const maxConns = 64

// serve serves who connects, until the listener is closed.
func (k *keeper) serve(l net.Listener) *sync.WaitGroup {
	var serving sync.WaitGroup
	room := make(chan struct{}, maxConns)
	serving.Go(func() {
		for {
			room <- struct{}{}
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // no more files for now
				<-room
				time.Sleep(10 * time.Millisecond)
				continue
			}
			serving.Go(func() {
				defer func() { <-room }()
				k.converse(session.NewConn(conn))
			})
		}
	})
	return &serving
}

// lastWords is how long those who are connected have, once the session has ended, to ask their last question.
const lastWords = 50 * time.Millisecond

// converse answers one who is connected, until they go or the session has ended.
func (k *keeper) converse(c *session.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer c.Close()
	go func() {
		select {
		case <-k.ended:
			c.SetReadDeadline(time.Now().Add(lastWords))
		case <-ctx.Done():
		}
	}()
	for {
		var req session.Request
		if err := c.Receive(&req); err != nil {
			return
		}
		if req.Op != session.OpCount {
			k.output.used()
		}
		answer, err := k.answer(ctx, req)
		if err != nil {
			report := fault.ReportOf(err)
			answer.Error = &report
		}
		select {
		case <-k.ended:
			answer.Ended = true
		default:
		}
		if c.Send(answer) != nil {
			return
		}
	}
}

// answer does what is asked.
func (k *keeper) answer(ctx context.Context, req session.Request) (a session.Answer, err error) {
	switch req.Op {
	case session.OpInput:
		if err = k.in.put(req.Data); err == nil {
			k.note(session.Event{Event: "write", Client: req.Client, Bytes: len(req.Data)})
		}
	case session.OpSecret:
		err = k.typeSecret(ctx, req)
	case session.OpResize:
		if err = k.resize(req.Cols, req.Rows); err == nil {
			k.note(session.Event{Event: "resize", Client: req.Client, Cols: req.Cols, Rows: req.Rows})
		}
	case session.OpSignal:
		if err = k.signal(req.Signal); err == nil {
			k.note(session.Event{Event: "signal", Client: req.Client, Signal: req.Signal})
		}
	case session.OpWait:
		k.output.wait(ctx, req)
	case session.OpLook:
		a.Look, err = k.look()
	case session.OpCount:
		a.Count = new(session.Count)
		a.Count.Written, a.Count.Refused = k.in.counts()
		a.Count.Hidden = k.hidden()
	case session.OpEnd:
		k.note(session.Event{Event: "close", Client: req.Client})
		k.stop(session.Killed)
		<-k.ended
	default:
		err = fault.Newf(fault.Unsupported, "this keeper does not know %.40q", req.Op)
	}
	return a, err
}

// signal sends a signal by its name.
func (k *keeper) signal(name string) error {
	sig, ok := session.Signals[name]
	if !ok {
		return fault.Newf(fault.Invalid, "unsupported signal %.40q", name)
	}
	return k.program.signal(sig)
}

// look tells what a person would see.
func (k *keeper) look() (*session.Look, error) {
	k.output.mu.Lock()
	defer k.output.mu.Unlock()
	drawn, err := k.output.screen.draw(k.output.logs[session.Output])
	if err != nil {
		return nil, err
	}
	rows, err := k.folder.HideIn(drawn.Rows())
	if err != nil {
		return nil, err
	}
	l := &session.Look{Screen: rows, Alternate: drawn.Alternate()}
	l.Row, l.Col = drawn.Cursor()
	l.Hint = k.hint(l.Alternate)
	return l, nil
}
