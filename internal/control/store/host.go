package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Host is a host of sandboxes.
type Host struct {
	ID        string
	Key       string // key of the host's state folder; empty: unknown
	Name      string
	SeenAt    time.Time
	CreatedAt time.Time
}

const hostFields = "id, key, name, seen_at, created_at"

func scanHost(r row) (h Host, err error) {
	var seen, created int64
	err = r.Scan(&h.ID, &h.Key, &h.Name, &seen, &created)
	h.SeenAt, h.CreatedAt = moment(seen), moment(created)
	return h, err
}

// SeeHost records the current name of the host with a key, and the time of its answer. It adds the
// host if it is new, and returns its record. Exists: a host with another key has the name. Two
// hosts must not share a record, because each would report the sandboxes of the other as missing.
func (s *Store) SeeHost(ctx context.Context, key, name string, now time.Time) (h Host, err error) {
	err = s.change(ctx, func(tx *sql.Tx) error {
		h, err = find(ctx, tx, "host", name, scanHost, "SELECT "+hostFields+" FROM hosts WHERE key = $1", key)
		if fault.KindOf(err) == fault.NotFound { // new, or recorded before hosts had keys
			h, err = find(ctx, tx, "host", name, scanHost, "SELECT "+hostFields+" FROM hosts WHERE name = $1 AND key = ''", name)
		}
		switch {
		case fault.KindOf(err) == fault.NotFound:
			h = Host{ID: NewID(HostPrefix), CreatedAt: now}
		case err != nil:
			return err
		}
		other, err := find(ctx, tx, "host", name, scanHost, "SELECT "+hostFields+" FROM hosts WHERE name = $1 AND id <> $2", name, h.ID)
		if err == nil {
			return fault.New(fault.Exists, "record host", name, "the database has another host with this name, and the key %q", other.Key)
		}
		if fault.KindOf(err) != fault.NotFound {
			return err
		}
		h.Key, h.Name, h.SeenAt = key, name, now
		_, err = tx.ExecContext(ctx, "INSERT INTO hosts ("+hostFields+`) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE SET key = excluded.key, name = excluded.name, seen_at = excluded.seen_at`, h.ID, key, name, micros(now), micros(h.CreatedAt))
		return err
	})
	return h, err
}

// Hosts returns all hosts, the oldest first.
func (s *Store) Hosts(ctx context.Context) ([]Host, error) {
	all, err := collect(ctx, s.read, scanHost, "SELECT "+hostFields+" FROM hosts ORDER BY created_at, id")
	return all, s.fault(err)
}
