package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/pyro-mcp/pyro"
)

const (
	// patience is the delay before the first message. If standard error is not a terminal, it is
	// also the interval between messages.
	patience = time.Second
	// refresh is the interval between updates on a terminal.
	refresh = 100 * time.Millisecond
)

// progressLine shows the progress of long work. On a terminal it overwrites one line. Elsewhere it
// prints lines, at most one per second. Call report for each event, and call stop when the work is
// done.
type progressLine struct {
	out      io.Writer
	terminal bool
	width    int

	mu      sync.Mutex
	began   time.Time // start time of the current phase
	now     pyro.Progress
	said    string
	visible bool
	ticking chan struct{} // closed to stop the goroutine that prints; nil if it does not run
	ended   chan struct{}
}

// newProgress returns a progressLine for standard error. If quiet is true, the progressLine prints
// nothing.
func newProgress(quiet bool) *progressLine {
	if quiet {
		return &progressLine{out: io.Discard}
	}
	p := &progressLine{out: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
	if p.terminal {
		p.width, _, _ = term.GetSize(int(os.Stderr.Fd()))
	}
	return p
}

// report records an event. A goroutine prints the event later.
func (p *progressLine) report(news pyro.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if news.Phase != p.now.Phase || news.Subject != p.now.Subject {
		slog.Debug(news.Phase, "subject", news.Subject)
		p.began = time.Now()
	}
	p.now = news
	if p.ticking == nil {
		p.ticking, p.ended = make(chan struct{}), make(chan struct{})
		go p.tick(p.ticking, p.ended)
	}
}

func (p *progressLine) tick(stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		select {
		case <-stop:
			return
		case <-wait.C:
		}
		p.print()
		if p.terminal {
			wait.Reset(refresh)
		} else {
			wait.Reset(patience)
		}
	}
}

func (p *progressLine) print() {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := describe(p.now)
	if !p.terminal {
		if line != p.said {
			p.said = line
			fmt.Fprintln(p.out, line)
		}
		return
	}
	line += fmt.Sprintf("  %ds", int(time.Since(p.began).Seconds()))
	if p.width > 1 && len([]rune(line)) >= p.width {
		line = string([]rune(line)[:p.width-1])
	}
	p.visible = true
	fmt.Fprintf(p.out, "\r\x1b[K%s", line)
}

// stop stops the output and clears the line. It is idempotent. If report is called later, the
// output starts again.
func (p *progressLine) stop() {
	p.mu.Lock()
	ticking, ended := p.ticking, p.ended
	p.ticking, p.ended, p.now = nil, nil, pyro.Progress{}
	p.mu.Unlock()
	if ticking == nil {
		return
	}
	close(ticking)
	<-ended
	if p.visible {
		p.visible = false
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// describe formats an event, such as "[debian:12] pulling layers 34 MB of 120 MB (28 %)".
func describe(news pyro.Progress) string {
	var b strings.Builder
	if news.Subject != "" {
		fmt.Fprintf(&b, "[%s] ", news.Subject)
	}
	b.WriteString(news.Phase)
	switch {
	case news.Total > 0 && news.Total < 10_000: // the total is a number of steps, not of bytes
		fmt.Fprintf(&b, " %d of %d", news.Done, news.Total)
	case news.Total > 0:
		fmt.Fprintf(&b, " %s of %s (%d %%)", size(news.Done), size(news.Total), news.Done*100/news.Total)
	case news.Done > 0:
		fmt.Fprintf(&b, " %s", size(news.Done))
	}
	return b.String()
}
