package pyro

import "github.com/pyro-mcp/pyro/internal/progress"

// Progress is a report about long work, such as the pull or the first start of an environment.
type Progress struct {
	Phase   string `json:"phase"`           // the current step, in a few words.
	Subject string `json:"subject"`         // the target of the work, such as an environment.
	Done    int64  `json:"done"`            // completed so far, in bytes or steps.
	Total   int64  `json:"total,omitempty"` // total in the same unit; 0: unknown
}

// ProgressFunc receives reports. The goroutine that does the work calls it, so it must return
// quickly. A ProgressFunc can be nil.
type ProgressFunc func(Progress)

func (f ProgressFunc) adapt() progress.Func {
	if f == nil {
		return nil
	}
	return func(e progress.Event) { f(Progress(e)) }
}
