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
	// quietInterval is the maximum time between progress reports, if the call has a progress token.
	// Clients give up after 60 s without progress, and some after 30 s.
	quietInterval = 10 * time.Second
	// outputInterval is the minimum time between two reports that contain output.
	outputInterval = time.Second
	// sameInterval is the minimum time between two identical reports.
	sameInterval = time.Second / 2
	// maxReported is the maximum amount of output in a report, in bytes. If there is more, only the
	// last bytes are reported.
	maxReported = 1 << 10
)

// reporter reports the progress of a call to its client. If the call has no progress token,
// reporter only logs.
type reporter struct {
	progress func(message string, number int) // nil if the call has no progress token
	log      func(message string)
	quiet    time.Duration
	began    time.Time

	mu     sync.Mutex
	timer  *time.Timer // fires when the next report is due; nil if progress is nil
	number int         // number of reports.
	last   string      // the last report
	at     time.Time   // time of the last report.
	output []byte      // the end of the output since the last report
	done   bool
}

// newReporter returns the reporter of a call. The caller must stop it before it answers.
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

// report reports a step of the call.
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

// Write reports the output of a command. It reports immediately, or a second after the last report.
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

// tick reports pending output. If there is none, it reports that the call is still running.
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

// send sends a report. The caller must hold p.mu.
func (p *reporter) send(message string) {
	p.number, p.at = p.number+1, time.Now()
	if p.progress != nil {
		p.progress(message, p.number)
		p.timer.Reset(p.quiet)
	}
}

// stop stops the reports. The protocol does not allow reports after the answer.
func (p *reporter) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

type outputKey struct{}

// Output returns a writer for the output of a call's command, which is reported to the client. It
// is nil if the client does not want reports.
func Output(ctx context.Context) io.Writer {
	if p, _ := ctx.Value(outputKey{}).(*reporter); p != nil && p.progress != nil {
		return p
	}
	return nil
}

// Warn sends a warning to the client of a call, if the client has set a log level.
func Warn(ctx context.Context, message string) {
	if c, ok := ctx.Value(connectionKey{}).(connection); ok {
		logTo(ctx, c.client, "warning", message)
	}
}

//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
func logTo(ctx context.Context, client *sdk.ServerSession, level sdk.LoggingLevel, message string) {
	//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
	client.Log(ctx, &sdk.LoggingMessageParams{Logger: "pyro", Level: level, Data: message}) // an error means that the client has disconnected
}
