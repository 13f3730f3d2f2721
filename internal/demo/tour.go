package demo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Step is one of a tour.
type Step struct {
	Name    string  `json:"name"`
	Text    string  `json:"text"`    // what it shows, a sentence
	Command string  `json:"command"` // that does the same; it may be several, a line each
	Output  string  `json:"output"`  // what came out, cut where it is long
	OK      bool    `json:"ok"`      // it did what it says
	MS      float64 `json:"ms"`
}

// Report is what became of a tour.
type Report struct {
	OK          bool           `json:"ok"` // every step did what it says, and nothing is left
	Environment string         `json:"environment"`
	Isolation   pyro.Isolation `json:"isolation"` // of its machines; empty where none could be started
	Steps       []Step         `json:"steps"`     // up to the first that did not do what it says, and what tidied up
	TotalMS     float64        `json:"total_ms"`
	Error       *fault.Report  `json:"error,omitempty"` // why it is not ok
}

// TourRequest says how to give a tour. Nothing has to be set.
type TourRequest struct {
	Begin    func(number, of int, s Step) // hears of each step before it is done, from 1 on; nil: nobody does
	End      func(s Step)                 // and after it
	Progress pyro.ProgressFunc
}

// tidyPatience bounds the end of a tour that was given up.
const tidyPatience = 30 * time.Second

// Tour gives a tour of pyro on real machines: a workspace of a small folder with a bug in it, which is found, mended, kept, broken and taken back. It ends with the first
// step that does not do what it says, and the error tells which; the report is there in any case. Neither workspace nor file is left, also where ctx ends it.
func Tour(ctx context.Context, p *pyro.Pyro, req TourRequest) (*Report, error) {
	began := time.Now()
	t := &tour{pyro: p, req: req, report: &Report{Environment: pyro.DefaultEnvironment, Steps: []Step{}}}
	err := t.give(ctx)
	t.report.OK = err == nil
	if err != nil {
		r := fault.ReportOf(err)
		t.report.Error = &r
	}
	t.report.TotalMS = milliseconds(time.Since(began))
	return t.report, err
}

// tour is one call of Tour.
type tour struct {
	pyro      *pyro.Pyro
	req       TourRequest
	report    *Report
	temporary string // folder on the host, of all that it writes there
	seed      string // folder in it
	patchFile string
	exported  string // file in it
	id        string // of the workspace, from its creation on
}

func (t *tour) give(ctx context.Context) (err error) {
	if t.temporary, err = os.MkdirTemp("", "pyro-demo-"); err != nil {
		return fault.Wrap(err, "make temporary folder", "")
	}
	defer func() {
		if left := os.RemoveAll(t.temporary); err == nil {
			err = fault.Wrap(left, "remove temporary folder", t.temporary)
		}
	}()
	if t.seed, t.patchFile, err = writeSeed(t.temporary); err != nil {
		return fault.Wrap(err, "write", t.temporary)
	}
	t.exported = filepath.Join(t.temporary, "means.py")
	steps := t.steps()
	defer func() {
		if t.id == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyPatience)
		defer cancel()
		if deleted := t.do(ctx, len(steps)+1, len(steps)+1, t.delete()); err == nil {
			err = deleted
		}
	}()
	for i, s := range steps {
		if err := t.do(ctx, i+1, len(steps)+1, s); err != nil {
			return err
		}
	}
	return nil
}

// step is what is done in one.
type step struct {
	name, text string
	command    func() string // that does the same; some are known only when the workspace is
	do         func(context.Context) (output string, err error)
}

// do does a step, and notes and tells what became of it.
func (t *tour) do(ctx context.Context, number, of int, s step) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	noted := Step{Name: s.name, Text: s.text, Command: strings.TrimSpace(s.command())}
	if t.req.Begin != nil {
		t.req.Begin(number, of, noted)
	}
	began := time.Now()
	output, err := s.do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = &fault.Error{Kind: fault.Canceled, Err: cause}
	}
	noted.Output, noted.OK, noted.MS = shown(output, pyro.SecretValue{}), err == nil, milliseconds(time.Since(began))
	t.report.Steps = append(t.report.Steps, noted)
	if t.req.End != nil {
		t.req.End(noted)
	}
	return fault.Wrap(err, "demo", s.name)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
