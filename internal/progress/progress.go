// Package progress reports the progress of long operations.
package progress

// Event is a progress report.
type Event struct {
	Phase   string // the current step in a few words, such as "pulling layers".
	Subject string // the object of the step, such as "debian:12".
	Done    int64  // the finished amount, in bytes or steps.
	Total   int64  // the total amount in the same unit; 0 if unknown.
}

// Func receives events. The working goroutine calls it, so it must return quickly. A Func can be
// nil, so call it with Report.
type Func func(Event)

// Report calls f unless it is nil.
func (f Func) Report(e Event) {
	if f != nil {
		f(e)
	}
}

// Phase reports the start of a phase.
func (f Func) Phase(phase, subject string) { f.Report(Event{Phase: phase, Subject: subject}) }
