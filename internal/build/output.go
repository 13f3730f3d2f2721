package build

import (
	"bytes"
	"time"
)

// Status is the outcome of a step.
type Status string

// These are the statuses of a step.
const (
	Started Status = "started"
	Printed Status = "printed" // the step printed a line, which is in Text.
	Cached  Status = "cached"  // an earlier build has done this step
	Done    Status = "done"
	Failed  Status = "failed" // the reason is in Text
)

// Event reports the progress of a build.
type Event struct {
	Step     int           `json:"step"`           // number of the step, from 1
	Name     string        `json:"name,omitempty"` // Of a step that has started or was cached, such as "[2/5] RUN make".
	Status   Status        `json:"status"`
	Text     string        `json:"text,omitempty"` // a line without its end, at most maxLine bytes
	Duration time.Duration `json:"-"`              // time since the start of the step
}

// maxLine is the size at which long lines of output are broken, in bytes.
const maxLine = 8 << 10

// printer passes the output of a step to events, line by line.
type printer struct {
	report func(text string)
	line   []byte
}

func (p *printer) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			p.line = append(p.line, b...)
			b = nil
		} else {
			p.line = append(p.line, b[:end]...)
			b = b[end+1:]
			p.flush()
		}
		for len(p.line) > maxLine {
			p.report(string(p.line[:maxLine]))
			p.line = append(p.line[:0], p.line[maxLine:]...)
		}
	}
	return n, nil
}

func (p *printer) flush() {
	p.report(string(bytes.TrimSuffix(p.line, []byte("\r"))))
	p.line = p.line[:0]
}

// close reports an unfinished line.
func (p *printer) close() {
	if len(p.line) > 0 {
		p.flush()
	}
}
