package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Command is one entry of a workspace's history.
type Command struct {
	Sequence  int
	Argv      []string
	Cwd       string
	StartedAt time.Time
	EndedAt   time.Time // zero: it runs, or its machine ended before it did
	Result    Result
	Stdout    []byte // up to a bound; see Result
	Stderr    []byte
}

// OutputBytes is how much of each stream of a command is kept: the first half and the last half of it, where there was more.
const OutputBytes = 64 << 10

// HistoryBytes is about how much output of all the commands of a workspace is kept. The oldest is dropped first, and says so; its commands stay.
const HistoryBytes = 16 << 20

// pruneEvery is how many commands are added between two looks at how much there is, each of which reads the whole history's lengths.
const pruneEvery = 64

// Dropped is what stands where output was that is no longer kept.
const Dropped = "[output this old is not kept]\n"

// Result is how a command ended.
type Result struct {
	ExitCode    int    `json:"exit_code"`
	Signal      int    `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out,omitempty"`
	NotRun      string `json:"not_run,omitempty"`       // why the program never ran
	Broken      string `json:"broken,omitempty"`        // why nobody saw its end
	OutOfMemory bool   `json:"out_of_memory,omitempty"` //
	DurationNS  int64  `json:"duration_ns"`
	StdoutBytes int64  `json:"stdout_bytes"` // written in all
	StderrBytes int64  `json:"stderr_bytes"`
}

// Begin adds a command to the history and gives its number, from 1 on.
func (s *Store) Begin(ctx context.Context, id string, c Command) (sequence int, err error) {
	err = s.record(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO commands (workspace_id, sequence, argv, cwd, started_at)
			SELECT w.id, 1 + (SELECT coalesce(max(sequence), 0) FROM commands WHERE workspace_id = w.id), $2, $3, $4 FROM workspaces w WHERE w.id = $1
			RETURNING sequence`, id, text(c.Argv), c.Cwd, nanos(c.StartedAt)).Scan(&sequence)
		return s.missing(err, id)
	})
	return sequence, err
}

// End notes how a command ended, and that the workspace was active until then. A history that has been cleared meanwhile stays so.
func (s *Store) End(ctx context.Context, id string, c Command, expires time.Time) error {
	return s.record(ctx, func(tx *sql.Tx) error {
		// A command of the same number that began after a reset is another.
		_, err := tx.ExecContext(ctx, `UPDATE commands SET ended_at = $1, result = $2, stdout = $3, stderr = $4
			WHERE workspace_id = $5 AND sequence = $6 AND started_at = $7`,
			nanos(c.EndedAt), text(c.Result), blob(c.Stdout), blob(c.Stderr), id, c.Sequence, nanos(c.StartedAt))
		if err == nil && c.Sequence%pruneEvery == 0 {
			err = prune(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return active(ctx, tx, id, c.EndedAt, expires)
	})
}

// prune drops the oldest output of a history that has too much of it.
func prune(ctx context.Context, tx *sql.Tx, id string) error {
	const drop = "CASE WHEN length(%[1]s) > length($3) THEN $3 ELSE %[1]s END"
	_, err := tx.ExecContext(ctx, `UPDATE commands SET stdout = `+fmt.Sprintf(drop, "stdout")+`, stderr = `+fmt.Sprintf(drop, "stderr")+`
		WHERE workspace_id = $1 AND length(stdout) + length(stderr) > 2 * length($3) AND sequence <= (
			SELECT max(sequence) FROM (
				SELECT sequence, sum(length(stdout) + length(stderr)) OVER (ORDER BY sequence DESC) AS kept FROM commands WHERE workspace_id = $1
			) WHERE kept > $2)`, id, HistoryBytes, []byte(Dropped))
	return err
}

// blob keeps no bytes from being NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Commands gives the history of a workspace, the oldest first.
func (s *Store) Commands(ctx context.Context, id string) ([]Command, error) {
	return s.CommandsAfter(ctx, id, 0, nil)
}

// CommandsAfter gives the commands after a number, and those that have some other numbers, the oldest first.
// It does not read the output of the rest.
func (s *Store) CommandsAfter(ctx context.Context, id string, last int, others []int) ([]Command, error) {
	return collect(ctx, s, func(row row) (Command, error) { return scanCommand(row, id) }, `SELECT sequence, argv, cwd, started_at, ended_at, result, stdout, stderr
		FROM commands WHERE workspace_id = $1 AND (sequence > $2 OR sequence IN (SELECT value FROM json_each($3))) ORDER BY sequence`,
		id, last, text(append([]int{}, others...)))
}

func scanCommand(row row, id string) (c Command, err error) {
	var argv, result string
	var started, ended int64
	if err := row.Scan(&c.Sequence, &argv, &c.Cwd, &started, &ended, &result, &c.Stdout, &c.Stderr); err != nil {
		return c, err
	}
	c.StartedAt, c.EndedAt = at(started), at(ended)
	if json.Unmarshal([]byte(argv), &c.Argv) != nil || json.Unmarshal([]byte(result), &c.Result) != nil {
		return c, fault.New(fault.Corrupt, "read history", id, "command %d", c.Sequence)
	}
	return c, nil
}
