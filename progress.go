package pyro

import "github.com/pyro-mcp/pyro/internal/progress"

// Progress is one report of work that may take long: a pull, the first start of an environment on a host.
type Progress struct {
	Phase   string `json:"phase"`           // what is being done, in a few words
	Subject string `json:"subject"`         // to what
	Done    int64  `json:"done"`            // so far, in bytes or steps
	Total   int64  `json:"total,omitempty"` // of how many, 0 where unknown
}

// ProgressFunc receives reports, from the goroutine that works: it must return soon. It may be nil.
type ProgressFunc func(Progress)

func (f ProgressFunc) adapt() progress.Func {
	if f == nil {
		return nil
	}
	return func(e progress.Event) { f(Progress(e)) }
}

// about gives reports a subject that the user knows.
func (f ProgressFunc) about(subject string) progress.Func {
	if f == nil {
		return nil
	}
	return func(e progress.Event) {
		e.Subject = subject
		f(Progress(e))
	}
}
