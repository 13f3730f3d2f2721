// Package progress is how long work tells what it is doing.
package progress

// Event is one report of long work.
type Event struct {
	Phase   string // what is being done, in a few words: "pulling layers"
	Subject string // to what: "debian:12"
	Done    int64  // so far, in bytes or steps
	Total   int64  // of how many, 0 where unknown
}

// Func receives events. It is called from the goroutine that works, so it must return soon. It may be nil: call it through Report.
type Func func(Event)

// Report calls f unless it is nil.
func (f Func) Report(e Event) {
	if f != nil {
		f(e)
	}
}

// Phase reports that a phase began.
func (f Func) Phase(phase, subject string) { f.Report(Event{Phase: phase, Subject: subject}) }
