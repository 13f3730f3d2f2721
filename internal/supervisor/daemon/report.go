package daemon

import (
	"encoding/json"
	"sync"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// reporter tells whoever started the supervisor how the start goes, a JSON object a line.
type reporter struct {
	mu sync.Mutex
	to *json.Encoder
}

func (r *reporter) tell(n remote.News) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to.Encode(n)
}

// progress passes on what is made on first use.
func (r *reporter) progress(e progress.Event) { r.tell(remote.News{Progress: &e}) }

func (r *reporter) failed(err error) {
	report := fault.WireOf(err)
	r.tell(remote.News{Failed: &report})
}

// ready tells that the machine is served, and waits for the word to go on without its starter. A starter that has died by then gives none, and the machine is
// not one that anybody knows of.
func (r *reporter) ready(word <-chan error) error {
	if err := r.tell(remote.News{Ready: true}); err != nil {
		return err
	}
	return <-word
}

// goesOn tells whether the machine that was saved runs now.
func (r *reporter) goesOn(err error) {
	if err != nil {
		r.failed(err)
		return
	}
	r.tell(remote.News{GoesOn: true})
}
