package mcp

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	// quietInterval is the longest silence of a call that was given a progress token. Clients give up after 60 s without progress, some after 30 s.
	quietInterval = 10 * time.Second
	// outputInterval is the least time between two reports of output.
	outputInterval = time.Second
	// sameInterval is the least time between two equal reports.
	sameInterval = time.Second / 2
	// maxReported bounds the output in one report, in bytes: the last that came.
	maxReported = 1 << 10
)

// reporter tells the client of one call what it does, while it runs. Without a progress token it only logs.
type reporter struct {
	progress func(message string, number int) // nil: the client gave no token
	log      func(message string)
	quiet    time.Duration
	began    time.Time

	mu     sync.Mutex
	timer  *time.Timer // for the next report of output or of silence; nil without progress
	number int         // of reports so far
	last   string      // report
	at     time.Time   // of the last report
	output []byte      // that came since, its end
	done   bool
}

// newReporter makes the reporter of a call. The caller must stop it before it answers.
func newReporter(ctx context.Context, r *sdk.CallToolRequest, quiet time.Duration) *reporter {
	p := &reporter{quiet: quiet, began: time.Now(), log: func(message string) { logTo(ctx, r.Session, "info", message) }}
	if token := r.Params.GetProgressToken(); token != nil {
		p.progress = func(message string, number int) {
			r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Message: message, Progress: float64(number)})
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(quiet, p.tick)
	}
	return p
}

// report tells of a step.
func (p *reporter) report(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || message == p.last && time.Since(p.at) < sameInterval {
		return
	}
	if message != p.last {
		p.log(message)
	}
	p.send(message)
	p.last = message
}

// Write reports output of a command: at once, or a second after the last report.
func (p *reporter) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return len(b), nil
	}
	waits := len(p.output) > 0
	p.output = append(p.output, b[max(0, len(b)-maxReported):]...)
	p.output = p.output[max(0, len(p.output)-maxReported):]
	if since := time.Since(p.at); since >= outputInterval {
		p.flush()
	} else if !waits {
		p.timer.Reset(outputInterval - since)
	}
	return len(b), nil
}

// tick reports the output that waits, or that the call still runs.
func (p *reporter) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.done:
	case len(p.output) > 0:
		p.flush()
	default:
		p.send(fmt.Sprintf("still running after %d s", int(time.Since(p.began).Seconds())))
	}
}

func (p *reporter) flush() {
	text := fault.Printable(string(p.output))
	p.output = nil
	p.send(text)
}

// send needs the lock.
func (p *reporter) send(message string) {
	p.number, p.at = p.number+1, time.Now()
	if p.progress != nil {
		p.progress(message, p.number)
		p.timer.Reset(p.quiet)
	}
}

// stop ends the reports: after the answer the protocol allows none.
func (p *reporter) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

type outputKey struct{}

// Output takes what a command of a call prints, for the reports to its client; nil if the client wants none.
func Output(ctx context.Context) io.Writer {
	if p, _ := ctx.Value(outputKey{}).(*reporter); p != nil && p.progress != nil {
		return p
	}
	return nil
}

// Warn logs a warning to the client of a call, if it set a level for that.
func Warn(ctx context.Context, message string) {
	if c, ok := ctx.Value(connectionKey{}).(connection); ok {
		logTo(ctx, c.client, "warning", message)
	}
}

//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
func logTo(ctx context.Context, client *sdk.ServerSession, level sdk.LoggingLevel, message string) {
	//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
	client.Log(ctx, &sdk.LoggingMessageParams{Logger: "pyro", Level: level, Data: message}) // a client that has gone hears nothing
}
