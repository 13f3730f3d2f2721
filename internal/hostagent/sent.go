package hostagent

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// sent is the number of bytes that a machine has sent to other computers since its start. The start
// time, in nanoseconds since 1970, identifies the machine: a resumed sandbox has another machine,
// which counts from 0. The zero value means unknown.
type sent struct {
	bytes, since int64
}

// setSent records the bytes that a machine has sent, and reports them to the watchers later.
func (s *sandbox) setSent(u workspace.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := (sent{u.SentBytes, u.SentSince}); now != s.sent {
		s.sent = now
		s.reportUse()
	}
}

// measureTimeout is the maximum duration of measureSent. A machine answers within milliseconds,
// unless its host is very busy. The time suffices for a query in progress and another one.
const measureTimeout = 2 * queryTimeout

// measureSent asks the machine of a running sandbox how much it has sent. Otherwise a watcher would
// miss the bytes that a machine sends between the last sample and its end. Errors are ignored: a
// machine that does not answer must not prevent its end.
func (s *sandbox) measureSent(ctx context.Context) {
	if w := s.sampler.Load(); w != nil {
		ctx, cancel := context.WithTimeout(ctx, measureTimeout)
		defer cancel()
		w.refresh(ctx)
	}
}
