package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// month returns the first moment of a month in UTC, in microseconds.
func month(of time.Time) int64 {
	of = of.UTC()
	return micros(time.Date(of.Year(), of.Month(), 1, 0, 0, 0, 0, time.UTC))
}

// CountSent adds the bytes that a sandbox has sent to other computers to the sum of its team for
// this month. since is the start time of the sandbox's machine, and bytes is the total that this
// machine has sent. So the call is idempotent, and late reports about an earlier machine are
// ignored. If the sandbox was removed, CountSent does nothing. spent is true if the call has added
// bytes and the team has spent its quota, see EgressSpent.
func (s *Store) CountSent(ctx context.Context, id string, since, bytes int64, now time.Time) (spent bool, err error) {
	if more, err := uncounted(ctx, s.read, id, since, bytes); err != nil || more == 0 { // most reports have no new bytes
		return false, s.fault(err)
	}
	err = s.changeRecord(ctx, id, func(tx *sql.Tx, b Sandbox) (err error) {
		spent = false
		more, err := uncounted(ctx, tx, id, since, bytes) // another report may have been counted before the lock
		if err != nil || more == 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE sandboxes SET sent_since = $1, sent_bytes = $2 WHERE id = $3", since, bytes, id); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO egress (team_id, month, bytes) VALUES ($1, $2, $3)
			ON CONFLICT (team_id, month) DO UPDATE SET bytes = egress.bytes + excluded.bytes`, b.TeamID, month(now), more)
		if err == nil {
			spent, err = egressSpent(ctx, tx, b.TeamID, now)
		}
		return err
	})
	return spent, err
}

// uncounted returns the number of bytes that a machine has sent and that are not counted yet.
func uncounted(ctx context.Context, from querier, id string, since, bytes int64) (int64, error) {
	var countedSince, counted int64
	err := from.QueryRowContext(ctx, "SELECT sent_since, sent_bytes FROM sandboxes WHERE id = $1", id).Scan(&countedSince, &counted)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && since < countedSince:
		return 0, nil
	case err == nil && since == countedSince:
		bytes = max(bytes-counted, 0)
	}
	return bytes, err
}

// EgressSpent reports whether a team has reached its egress quota for this month.
func (s *Store) EgressSpent(ctx context.Context, team string, now time.Time) (bool, error) {
	spent, err := egressSpent(ctx, s.read, team, now)
	return spent, s.fault(err)
}

func egressSpent(ctx context.Context, from querier, team string, now time.Time) (bool, error) {
	var n int
	err := from.QueryRowContext(ctx, `SELECT COUNT(*) FROM teams JOIN egress ON egress.team_id = teams.id
		WHERE teams.id = $1 AND month = $2 AND max_egress_mb > 0 AND bytes >= max_egress_mb * 1048576`, team, month(now)).Scan(&n)
	return n > 0, err
}
