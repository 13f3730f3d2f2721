package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// Event reports a change of a record of a team. It has no content: no command, file or value.
type Event struct {
	TeamID  string
	ID      int64 // 1, 2, 3 … in each team
	Type    string
	Subject string            // the id of the record
	Data    map[string]string // such as the new status
	At      time.Time
}

// The types of events.
const (
	EventSandboxCreated  = "sandbox.created" // for a fork, the data contains parent_id
	EventSandboxStatus   = "sandbox.status"
	EventSandboxRemoved  = "sandbox.removed"
	EventTemplateCreated = "template.created"
	EventTemplateRemoved = "template.removed"
	EventKeyCreated      = "api_key.created"
	EventKeyRemoved      = "api_key.removed"
	EventMemberSet       = "member.set" // added, or given another role
	EventMemberRemoved   = "member.removed"
)

// The store keeps the latest eventsKept events of a team that are not older than eventTime. It
// removes the others after every trimEvery new events.
const (
	eventsKept = 10_000
	eventTime  = 7 * 24 * time.Hour
	trimEvery  = 100
)

// addEvent adds an event with the next ID of the team, in the transaction that changes the record.
// The transaction then has the lock of the team until its end. So no reader sees an event before an
// event with a smaller ID. A transaction that also locks other rows must call lockTeam first.
func (s *Store) addEvent(ctx context.Context, tx *sql.Tx, team, kind, subject string, data map[string]string) error {
	if data == nil {
		data = map[string]string{}
	}
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var id int64
	if err := tx.QueryRowContext(ctx, "UPDATE teams SET last_event = last_event + 1 WHERE id = $1 RETURNING last_event", team).Scan(&id); err != nil {
		return err
	}
	now := time.Now()
	if _, err := tx.ExecContext(ctx, "INSERT INTO events (team_id, id, type, subject, data, at) VALUES ($1, $2, $3, $4, $5, $6)",
		team, id, kind, subject, string(text), micros(now)); err != nil {
		return err
	}
	if id%trimEvery == 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM events WHERE team_id = $1 AND (id <= $2 OR at < $3)", team, id-eventsKept, micros(now.Add(-eventTime))); err != nil {
			return err
		}
	}
	if s.engine == postgresEngine {
		if _, err := tx.ExecContext(ctx, "SELECT pg_notify($1, $2)", eventChannel, team); err != nil {
			return err
		}
	}
	s.readers.changed(tx, team)
	return nil
}

// Events returns the oldest events of a team after an ID. If the reader has missed events, because
// they were removed, missed is true. Then the reader must list all records again, and continue
// after last, the ID of the latest event.
func (s *Store) Events(ctx context.Context, team string, after int64, limit int) (all []Event, last int64, missed bool, err error) {
	if last, err = s.LastEvent(ctx, team); err != nil {
		return nil, 0, false, err
	}
	all, err = collect(ctx, s.read, scanEvent, "SELECT team_id, id, type, subject, data, at FROM events WHERE team_id = $1 AND id > $2 ORDER BY id LIMIT $3", team, after, limit)
	if err != nil {
		return nil, 0, false, s.fault(err)
	}
	if len(all) == 0 {
		return all, last, last != after, nil
	}
	return all, max(last, all[len(all)-1].ID), all[0].ID != after+1, nil // the IDs have no gaps
}

// LastEvent returns the ID of the latest event of a team, or 0 if there was none.
func (s *Store) LastEvent(ctx context.Context, team string) (int64, error) {
	last, err := find(ctx, s.read, "team", team, func(r row) (n int64, err error) { return n, r.Scan(&n) }, "SELECT last_event FROM teams WHERE id = $1", team)
	return last, s.fault(err)
}

func scanEvent(r row) (e Event, err error) {
	var data string
	var at int64
	if err := r.Scan(&e.TeamID, &e.ID, &e.Type, &e.Subject, &data, &at); err != nil {
		return e, err
	}
	e.At = moment(at)
	return e, json.Unmarshal([]byte(data), &e.Data)
}
