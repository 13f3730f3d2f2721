package store

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// eventChannel is the channel of PostgreSQL on which processes notify each other of new events.
const eventChannel = "pyro_events"

// readers wakes the readers of events. After a wake-up, a reader gets the events from the table. So
// slow readers need no memory.
type readers struct {
	mu      sync.Mutex
	byTeam  map[string]map[chan struct{}]struct{}
	pending map[*sql.Tx][]string // teams with new events in open transactions

	config *pgx.ConnConfig // configuration of PostgreSQL; nil with SQLite
	stop   context.CancelFunc
	ended  chan struct{} // closed when the goroutine that listens has ended
}

// changed records that a transaction adds an event of a team.
func (r *readers) changed(tx *sql.Tx, team string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		r.pending = map[*sql.Tx][]string{}
	}
	r.pending[tx] = append(r.pending[tx], team)
}

// end removes the record of a transaction. If the transaction was committed, end wakes the readers
// of its events.
func (r *readers) end(tx *sql.Tx, committed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if committed {
		for _, team := range r.pending[tx] {
			notifyAll(r.byTeam[team])
		}
	}
	delete(r.pending, tx)
}

func notifyAll(all map[chan struct{}]struct{}) {
	for c := range all {
		select {
		case c <- struct{}{}:
		default: // it has not read since the last wake-up
		}
	}
}

func (r *readers) notifyTeam(team string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	notifyAll(r.byTeam[team])
}

func (r *readers) notifyReaders() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range r.byTeam {
		notifyAll(all)
	}
}

// ReadEvents returns a channel that receives a value when a team has new events, even if another
// process has added them to a PostgreSQL database. The caller must call end.
func (s *Store) ReadEvents(team string) (changed <-chan struct{}, end func()) {
	r, c := &s.readers, make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byTeam == nil {
		r.byTeam = map[string]map[chan struct{}]struct{}{}
	}
	if len(r.byTeam) == 0 {
		r.listen()
	}
	if r.byTeam[team] == nil {
		r.byTeam[team] = map[chan struct{}]struct{}{}
	}
	r.byTeam[team][c] = struct{}{}
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byTeam[team], c)
		if len(r.byTeam[team]) == 0 {
			delete(r.byTeam, team)
		}
		if len(r.byTeam) == 0 && r.stop != nil {
			r.stop()
		}
	}
}

// listen starts to receive the notifications of other processes. While there are no readers, the
// store keeps no connection for notifications. The caller holds r.mu.
func (r *readers) listen() {
	if r.config == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	before, ended := r.ended, make(chan struct{})
	r.stop, r.ended = cancel, ended
	go func() {
		defer close(ended)
		if before != nil {
			<-before
		}
		for wait := minListenRetry; ; wait = min(2*wait, maxListenRetry) {
			if r.receive(ctx) {
				wait = minListenRetry
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	}()
}

// Delays before a lost connection for notifications is replaced.
const (
	minListenRetry = 100 * time.Millisecond
	maxListenRetry = 10 * time.Second
)

// receive receives notifications until the connection is lost. It reports whether it was connected.
func (r *readers) receive(ctx context.Context) (connected bool) {
	c, err := pgx.ConnectConfig(ctx, r.config.Copy())
	if err != nil {
		return false
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, "LISTEN "+eventChannel); err != nil {
		return false
	}
	r.notifyReaders() // notifications before LISTEN are lost
	for {
		n, err := c.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		r.notifyTeam(n.Payload)
	}
}

// close ends the connection for notifications.
func (r *readers) close() {
	r.mu.Lock()
	stop, ended := r.stop, r.ended
	r.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
}
