package store

import (
	"context"
	"database/sql"
	"time"
)

// statusRunning is the status of sandboxes that use processors and memory.
const statusRunning = "running"

// The store keeps the use of a team for useKept. It replaces older changes by their sum, at most
// once every foldEvery.
const (
	useKept   = 93 * 24 * time.Hour
	foldEvery = 24 * time.Hour
)

// Use is the resource use of a team's running sandboxes at one point in time.
type Use struct {
	Running, VCPUs, MemoryMB int64
}

// Samples are the use of a team over time, in intervals of the same length. Each element is the
// maximum of an interval.
type Samples struct {
	Current Use
	Series  []Use
}

// Day is the use of a team on a day in UTC. An hour of a processor is 60 minutes.
type Day struct {
	Date                     time.Time
	CPUMinutes, MemMBMinutes float64
}

// recordRunning records a change of the team's use if a sandbox starts or stops running. b is the
// record before the change. The caller must read b after it has locked the team, so that two
// changes can't both see the earlier status.
func recordRunning(ctx context.Context, tx *sql.Tx, b Sandbox, runs bool, now time.Time) error {
	if (b.Status == statusRunning) == runs {
		return nil
	}
	sign := int64(1)
	if !runs {
		sign = -1
	}
	if err := addUse(ctx, tx, b.TeamID, b.ID, now, Use{sign, sign * b.VCPUs, sign * b.MemoryMB}); err != nil {
		return err
	}
	return foldUse(ctx, tx, b.TeamID, now.Add(-useKept))
}

func addUse(ctx context.Context, tx *sql.Tx, team, id string, at time.Time, u Use) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO use_changes (team_id, sandbox_id, at, running, vcpus, memory_mb) VALUES ($1, $2, $3, $4, $5, $6)",
		team, id, micros(at), u.Running, u.VCPUs, u.MemoryMB)
	return err
}

// foldUse replaces the changes before a time by their sum, if some are much older.
func foldUse(ctx context.Context, tx *sql.Tx, team string, before time.Time) error {
	var due int64
	err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM use_changes WHERE team_id = $1 AND at < $2 LIMIT 1) AS old", team, micros(before.Add(-foldEvery))).Scan(&due)
	if err != nil || due == 0 {
		return err
	}
	sum, err := useAt(ctx, tx, team, before)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM use_changes WHERE team_id = $1 AND at < $2", team, micros(before)); err != nil {
		return err
	}
	if sum == (Use{}) {
		return nil
	}
	return addUse(ctx, tx, team, "", before, sum)
}

// useAt returns the use of a team just before a time.
func useAt(ctx context.Context, from querier, team string, before time.Time) (u Use, err error) {
	err = from.QueryRowContext(ctx, "SELECT COALESCE(SUM(running), 0), COALESCE(SUM(vcpus), 0), COALESCE(SUM(memory_mb), 0) FROM use_changes WHERE team_id = $1 AND at < $2",
		team, micros(before)).Scan(&u.Running, &u.VCPUs, &u.MemoryMB)
	return u, err
}

// Samples returns the use of a team in n intervals of the same length. The last interval ends at
// the given time.
func (s *Store) Samples(ctx context.Context, team string, end time.Time, every time.Duration, n int) (Samples, error) {
	from := end.Add(-time.Duration(n) * every)
	now, err := useAt(ctx, s.read, team, from)
	if err != nil {
		return Samples{}, s.fault(err)
	}
	type change struct {
		slot      int
		sum, high Use // change of the use since the time from: at the end of the slot, and the maximum within it
	}
	scan := func(r row) (c change, err error) {
		return c, r.Scan(&c.slot, &c.sum.Running, &c.sum.VCPUs, &c.sum.MemoryMB, &c.high.Running, &c.high.VCPUs, &c.high.MemoryMB)
	}
	// The window sums all changes up to each change, so its maximum is the highest use in the
	// interval.
	changes, err := collect(ctx, s.read, scan, `SELECT slot, SUM(running), SUM(vcpus), SUM(memory_mb), MAX(r), MAX(v), MAX(m) FROM (
			SELECT (at - CAST($2 AS BIGINT)) / CAST($3 AS BIGINT) AS slot, running, vcpus, memory_mb,
				SUM(running) OVER w AS r, SUM(vcpus) OVER w AS v, SUM(memory_mb) OVER w AS m
			FROM use_changes WHERE team_id = $1 AND at >= $2 AND at < $4
			WINDOW w AS (ORDER BY at, running, sandbox_id ROWS UNBOUNDED PRECEDING)
		) AS changes GROUP BY slot ORDER BY slot`, team, micros(from), every.Microseconds(), micros(end))
	if err != nil {
		return Samples{}, s.fault(err)
	}
	began, all := now, Samples{Series: make([]Use, n)}
	for i := range all.Series {
		all.Series[i] = now
		if len(changes) > 0 && changes[0].slot == i {
			all.Series[i] = now.highest(began.plus(changes[0].high))
			now, changes = now.plus(changes[0].sum), changes[1:]
		}
	}
	all.Current = now
	return all, nil
}

func (u Use) plus(v Use) Use {
	return Use{u.Running + v.Running, u.VCPUs + v.VCPUs, u.MemoryMB + v.MemoryMB}
}

func (u Use) highest(v Use) Use {
	return Use{max(u.Running, v.Running), max(u.VCPUs, v.VCPUs), max(u.MemoryMB, v.MemoryMB)}
}

const day = 24 * time.Hour

// Days returns the use of a team on each day of a range. The use of today ends at the current time,
// which the caller passes.
func (s *Store) Days(ctx context.Context, team string, from, to, now time.Time) ([]Day, error) {
	from, to = from.UTC().Truncate(day), to.UTC().Truncate(day)
	running, err := useAt(ctx, s.read, team, from)
	if err != nil {
		return nil, s.fault(err)
	}
	end := to.Add(day)
	if now.Before(end) {
		end = now
	}
	type change struct {
		slot        int
		sum         Use
		vcpus, mems float64 // sum of the changes, each multiplied by the microseconds that remain of its day
	}
	scan := func(r row) (c change, err error) {
		return c, r.Scan(&c.slot, &c.sum.Running, &c.sum.VCPUs, &c.sum.MemoryMB, &c.vcpus, &c.mems)
	}
	changes, err := collect(ctx, s.read, scan, `SELECT slot, SUM(running), SUM(vcpus), SUM(memory_mb),
			SUM(CAST(vcpus AS DOUBLE PRECISION) * rest), SUM(CAST(memory_mb AS DOUBLE PRECISION) * rest) FROM (
			SELECT (at - CAST($2 AS BIGINT)) / CAST($3 AS BIGINT) AS slot, running, vcpus, memory_mb,
				CAST($3 AS BIGINT) - (at - CAST($2 AS BIGINT)) % CAST($3 AS BIGINT) AS rest
			FROM use_changes WHERE team_id = $1 AND at >= $2 AND at < $4
		) AS changes GROUP BY slot ORDER BY slot`, team, micros(from), day.Microseconds(), micros(end))
	if err != nil {
		return nil, s.fault(err)
	}
	all := []Day{}
	for i, date := 0, from; !date.After(to); i, date = i+1, date.Add(day) {
		cpu, mem := float64(running.VCPUs)*day.Minutes(), float64(running.MemoryMB)*day.Minutes()
		if len(changes) > 0 && changes[0].slot == i {
			minutes := float64(time.Minute.Microseconds())
			cpu, mem = cpu+changes[0].vcpus/minutes, mem+changes[0].mems/minutes
			running, changes = running.plus(changes[0].sum), changes[1:]
		}
		if future := date.Add(day).Sub(now); future > 0 { // nothing changed after now
			rest := min(future, day).Minutes()
			cpu, mem = cpu-float64(running.VCPUs)*rest, mem-float64(running.MemoryMB)*rest
		}
		all = append(all, Day{date, max(cpu, 0), max(mem, 0)})
	}
	return all, nil
}
