package daemon

import (
	"encoding/json"
	"sync"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// reporter reports the progress of the start to the starter. Each message is one line of JSON.
type reporter struct {
	mu sync.Mutex
	to *json.Encoder
}

func (r *reporter) send(n remote.StartMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to.Encode(n)
}

// progress reports the preparation of images and templates.
func (r *reporter) progress(e progress.Event) { r.send(remote.StartMessage{Progress: &e}) }

func (r *reporter) failed(err error) {
	report := fault.WireOf(err)
	r.send(remote.StartMessage{Failed: &report})
}

// ready reports that the machine is served, and waits until the starter acknowledges the start. It
// returns an error if the starter has died. The machine must then end, because no client knows
// about it.
func (r *reporter) ready(acknowledged <-chan error) error {
	if err := r.send(remote.StartMessage{Ready: true}); err != nil {
		return err
	}
	return <-acknowledged
}

// resumed reports whether the saved machine now runs.
func (r *reporter) resumed(err error) {
	if err != nil {
		r.failed(err)
		return
	}
	r.send(remote.StartMessage{Resumed: true})
}
