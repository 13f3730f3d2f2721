package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// buildView shows the progress of a build. close is idempotent.
type buildView interface {
	event(pyro.BuildEvent)
	close()
}

type silentBuild struct{}

func (silentBuild) event(pyro.BuildEvent) {}
func (silentBuild) close()                {}

// plainBuild prints all events and all output, in the format of docker build --progress=plain.
type plainBuild struct {
	out  io.Writer
	last int // step of the last line
}

func (v *plainBuild) event(e pyro.BuildEvent) {
	if v.last != 0 && e.Step != v.last {
		fmt.Fprintln(v.out)
	}
	v.last = e.Step
	switch e.Status {
	case pyro.BuildStarted:
		fmt.Fprintf(v.out, "#%d %s\n", e.Step, instruction(e.Name))
	case pyro.BuildCached:
		fmt.Fprintf(v.out, "#%d %s\n#%d CACHED\n", e.Step, instruction(e.Name), e.Step)
	case pyro.BuildPrinted:
		fmt.Fprintf(v.out, "#%d %.3f %s\n", e.Step, e.Duration.Seconds(), fault.Printable(e.Text))
	case pyro.BuildDone:
		fmt.Fprintf(v.out, "#%d DONE %.1fs\n", e.Step, e.Duration.Seconds())
	case pyro.BuildFailed:
		fmt.Fprintf(v.out, "#%d ERROR: %s\n", e.Step, e.Text)
	}
}

func (*plainBuild) close() {}

// instruction shortens an instruction to its first line.
func instruction(text string) string {
	first, _, more := strings.Cut(text, "\n")
	if more {
		first += " …"
	}
	return fault.Printable(first)
}

// liveLines is the number of lines of output that a live view shows below the running step.
const liveLines = 6

// liveBuild shows one line for each step. Below the running step it shows the end of the output. If
// the step fails, it prints the lines of output that it has kept.
type liveBuild struct {
	out   io.Writer
	width int

	mu    sync.Mutex
	drawn int // lines to remove before the next drawing
	name  string
	began time.Time
	tail  []string // the last lines of output, at most keptLines
	done  chan struct{}
	ended chan struct{}
}

// keptLines is the number of lines of output that are printed if a step fails.
const keptLines = 60

func newLiveBuild(out io.Writer, width int) *liveBuild { return &liveBuild{out: out, width: width} }

func (v *liveBuild) event(e pyro.BuildEvent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e.Status {
	case pyro.BuildStarted:
		v.name, v.began, v.tail = instruction(e.Name), time.Now(), nil
		v.start()
		v.draw()
	case pyro.BuildPrinted:
		if v.tail = append(v.tail, fault.Printable(e.Text)); len(v.tail) > keptLines {
			v.tail = v.tail[1:]
		}
	case pyro.BuildCached:
		v.clear()
		v.line("CACHED " + instruction(e.Name))
	case pyro.BuildDone:
		v.clear()
		v.line(fmt.Sprintf("%5.1fs %s", e.Duration.Seconds(), v.name))
		v.name = ""
	case pyro.BuildFailed:
		v.clear()
		v.line("FAILED " + v.name)
		for _, text := range v.tail {
			v.line("  " + text)
		}
		v.name = ""
	}
}

// start redraws the running step periodically, until close is called.
func (v *liveBuild) start() {
	if v.done != nil {
		return
	}
	v.done, v.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(v.ended)
		ticker := time.NewTicker(refresh)
		defer ticker.Stop()
		for {
			select {
			case <-v.done:
				return
			case <-ticker.C:
				v.mu.Lock()
				if v.name != "" {
					v.draw()
				}
				v.mu.Unlock()
			}
		}
	}()
}

func (v *liveBuild) line(text string) { fmt.Fprintf(v.out, "%s\n", v.cut(text)) }

func (v *liveBuild) cut(text string) string {
	if letters := []rune(text); len(letters) >= v.width {
		return string(letters[:v.width-1])
	}
	return text
}

// clear removes the drawing.
func (v *liveBuild) clear() {
	if v.drawn > 0 {
		fmt.Fprintf(v.out, "\x1b[%dA\x1b[J", v.drawn)
		v.drawn = 0
	}
}

// draw draws the running step and the end of its output.
func (v *liveBuild) draw() {
	v.clear()
	v.line(fmt.Sprintf("%5.1fs %s", time.Since(v.began).Seconds(), v.name))
	shown := v.tail[max(0, len(v.tail)-liveLines):]
	for _, text := range shown {
		v.line("  " + text)
	}
	v.drawn = 1 + len(shown)
}

func (v *liveBuild) close() {
	v.mu.Lock()
	done, ended := v.done, v.ended
	v.done = nil
	v.clear()
	v.mu.Unlock()
	if done != nil {
		close(done)
		<-ended
	}
}
