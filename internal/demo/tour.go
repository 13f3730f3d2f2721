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

// Step is one step of the tour.
type Step struct {
	Name    string  `json:"name"`
	Text    string  `json:"text"`    // a sentence that describes the step
	Command string  `json:"command"` // equivalent command lines, one per line
	Output  string  `json:"output"`  // truncated if it is long
	OK      bool    `json:"ok"`      // the step had the expected result
	MS      float64 `json:"ms"`
}

// Report is the result of the tour.
type Report struct {
	OK          bool           `json:"ok"` // all steps succeeded and nothing remains on the host
	Environment string         `json:"environment"`
	Isolation   pyro.Isolation `json:"isolation"` // empty if no machine started
	Steps       []Step         `json:"steps"`     // all steps up to the first failure, and the cleanup step
	TotalMS     float64        `json:"total_ms"`
	Error       *fault.Report  `json:"error,omitempty"` // set if OK is false
}

// TourRequest configures the tour. All fields are optional.
type TourRequest struct {
	Begin    func(number, of int, s Step) // called before each step; number starts at 1; can be nil
	End      func(s Step)                 // called after each step
	Progress pyro.ProgressFunc
}

// cleanupTimeout is the maximum time for the cleanup of an interrupted tour.
const cleanupTimeout = 30 * time.Second

// Tour demonstrates pyro on real machines. It fixes a bug in a small folder, takes a snapshot,
// breaks the machine and restores it. Tour stops at the first step with an unexpected result. The
// error then describes the result. The report is always set. Tour removes its workspace and its
// files, even if ctx is done.
func Tour(ctx context.Context, p *pyro.Pyro, req TourRequest) (*Report, error) {
	began := time.Now()
	t := &tour{pyro: p, req: req, report: &Report{Environment: pyro.DefaultEnvironment, Steps: []Step{}}}
	err := t.run(ctx)
	t.report.OK = err == nil
	if err != nil {
		r := fault.ReportOf(err)
		t.report.Error = &r
	}
	t.report.TotalMS = milliseconds(time.Since(began))
	return t.report, err
}

// tour is the state of one call of Tour.
type tour struct {
	pyro      *pyro.Pyro
	req       TourRequest
	report    *Report
	temporary string // folder on the host that contains all files of the tour
	seed      string // path of a folder in temporary
	patchFile string
	exported  string // path of a file in temporary
	id        string // ID of the workspace, or "" before it is created
}

func (t *tour) run(ctx context.Context) (err error) {
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
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

// step is a step that the tour can run.
type step struct {
	name, text string
	command    func() string // called just before run; some commands contain the ID of the workspace
	do         func(context.Context) (output string, err error)
}

// do runs a step, records its result and calls the callbacks.
func (t *tour) do(ctx context.Context, number, of int, s step) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	step := Step{Name: s.name, Text: s.text, Command: strings.TrimSpace(s.command())}
	if t.req.Begin != nil {
		t.req.Begin(number, of, step)
	}
	began := time.Now()
	output, err := s.do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = &fault.Error{Kind: fault.Canceled, Err: cause}
	}
	step.Output, step.OK, step.MS = shown(output, pyro.SecretValue{}), err == nil, milliseconds(time.Since(began))
	t.report.Steps = append(t.report.Steps, step)
	if t.req.End != nil {
		t.req.End(step)
	}
	return fault.Wrap(err, "demo", s.name)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
