package hostagent

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// sent is how many bytes a machine has sent to other computers since a time. The time, in
// nanoseconds since 1970, also identifies the machine: a resumed sandbox has another machine, which
// counts from 0. The zero value is unknown.
type sent struct {
	bytes, since int64
}

// setSent records what a machine has sent, and reports it to the watchers later.
func (s *sandbox) setSent(u workspace.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := (sent{u.SentBytes, u.SentSince}); now != s.sent {
		s.sent = now
		s.reportUse()
	}
}

// measureTimeout is the maximum duration of measureSent. A machine answers within milliseconds,
// unless it is very busy.
const measureTimeout = 3 * time.Second

// measureSent asks the machine of a running sandbox how much it has sent. Otherwise a watcher would
// miss what a machine sends between the last sample and its end. Errors are ignored: a machine that
// does not answer must not prevent its end.
func (s *sandbox) measureSent(ctx context.Context) {
	if w := s.sampler.Load(); w != nil {
		ctx, cancel := context.WithTimeout(ctx, measureTimeout)
		defer cancel()
		w.refresh(ctx)
	}
}
