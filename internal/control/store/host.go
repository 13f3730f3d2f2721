package store

import (
	"context"
	"time"
)

// Host is a host of sandboxes.
type Host struct {
	ID        string
	Name      string
	SeenAt    time.Time
	CreatedAt time.Time
}

const hostFields = "id, name, seen_at, created_at"

func scanHost(r row) (h Host, err error) {
	var seen, created int64
	err = r.Scan(&h.ID, &h.Name, &seen, &created)
	h.SeenAt, h.CreatedAt = moment(seen), moment(created)
	return h, err
}

// SeeHost records that a host answers, and adds it if it is new. It returns the host's record.
func (s *Store) SeeHost(ctx context.Context, name string, now time.Time) (Host, error) {
	err := s.exec(ctx, "INSERT INTO hosts ("+hostFields+`) VALUES ($1, $2, $3, $3)
		ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at`, NewID(HostPrefix), name, micros(now))
	if err != nil {
		return Host{}, err
	}
	h, err := find(ctx, s.read, "host", name, scanHost, "SELECT "+hostFields+" FROM hosts WHERE name = $1", name)
	return h, s.fault(err)
}

// Hosts returns all hosts, the oldest first.
func (s *Store) Hosts(ctx context.Context) ([]Host, error) {
	all, err := collect(ctx, s.read, scanHost, "SELECT "+hostFields+" FROM hosts ORDER BY created_at, id")
	return all, s.fault(err)
}
