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
	// patience is how long work may take before anything is said about it, and the pace of lines that stay.
	patience = time.Second
	// refresh is the pace of a line on a terminal that is written over.
	refresh = 100 * time.Millisecond
)

// progressLine tells people what long work is doing: on a terminal as one line that is written over, elsewhere as plain lines, at most one a second.
// Use report as the function that hears of progress, and stop when the work is done.
type progressLine struct {
	out      io.Writer
	terminal bool
	width    int

	mu      sync.Mutex
	began   time.Time // of the present phase
	now     pyro.Progress
	said    string
	visible bool
	ticking chan struct{} // closed to end the goroutine that prints; nil before the first report
	ended   chan struct{}
}

// newProgress tells on stderr, or nowhere when quiet.
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

// report takes the news; it prints nothing itself.
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

// stop ends the telling and clears the line. Idempotent; a later report begins anew.
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

// describe gives a report as one line of text: "[debian:12] pulling layers 34 MB of 120 MB (28 %)".
func describe(news pyro.Progress) string {
	var b strings.Builder
	if news.Subject != "" {
		fmt.Fprintf(&b, "[%s] ", news.Subject)
	}
	b.WriteString(news.Phase)
	switch {
	case news.Total > 0 && news.Total < 10_000: // steps
		fmt.Fprintf(&b, " %d of %d", news.Done, news.Total)
	case news.Total > 0:
		fmt.Fprintf(&b, " %s of %s (%d %%)", size(news.Done), size(news.Total), news.Done*100/news.Total)
	case news.Done > 0:
		fmt.Fprintf(&b, " %s", size(news.Done))
	}
	return b.String()
}
