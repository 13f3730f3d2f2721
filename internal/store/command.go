package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Command is an entry of a workspace's history.
type Command struct {
	Sequence  int
	Argv      []string
	Cwd       string
	StartedAt time.Time
	EndedAt   time.Time // zero if it still runs, or if its machine ended before it
	Result    Result
	Stdout    []byte // truncated, see OutputBytes
	Stderr    []byte
}

// OutputBytes is the maximum output that is kept per stream of a command. Of longer output the
// first and the last OutputBytes/2 bytes are kept.
const OutputBytes = program.HeadTailBytes

// HistoryBytes is the approximate maximum number of output bytes stored per workspace. Beyond this
// size, Dropped replaces the oldest output. The commands stay in the history.
const HistoryBytes = 16 << 20

// pruneEvery is the number of commands between two checks of a history's size. A check reads the
// lengths of the whole history.
const pruneEvery = 64

// Dropped replaces output that is no longer stored.
const Dropped = "[older output is not stored]\n"

// Result is the outcome of a command.
type Result struct {
	program.Exit
	Broken      string `json:"broken,omitempty"` // why the end was not observed; if it is set, Exit is not valid
	StdoutBytes int64  `json:"stdout_bytes"`     // bytes that the command wrote
	StderrBytes int64  `json:"stderr_bytes"`
}

// Begin adds a command to the history and returns its number, which starts at 1.
func (s *Store) Begin(ctx context.Context, id string, c Command) (sequence int, err error) {
	err = s.record(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO commands (workspace_id, sequence, argv, cwd, started_at)
			SELECT w.id, 1 + (SELECT coalesce(max(sequence), 0) FROM commands WHERE workspace_id = w.id), $2, $3, $4 FROM workspaces w WHERE w.id = $1
			RETURNING sequence`, id, text(c.Argv), c.Cwd, nanos(c.StartedAt)).Scan(&sequence)
		return s.missing(err, id)
	})
	return sequence, err
}

// End records the result of a command, and the workspace's activity. If the history was cleared in
// the meantime, End records only the activity.
func (s *Store) End(ctx context.Context, id string, c Command, expires time.Time) error {
	return s.record(ctx, func(tx *sql.Tx) error {
		// After a reset, another command can have the same number, but not the same start time.
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

// prune replaces the oldest output by Dropped if a history exceeds HistoryBytes.
func prune(ctx context.Context, tx *sql.Tx, id string) error {
	const drop = "CASE WHEN length(%[1]s) > length($3) THEN $3 ELSE %[1]s END"
	_, err := tx.ExecContext(ctx, `UPDATE commands SET stdout = `+fmt.Sprintf(drop, "stdout")+`, stderr = `+fmt.Sprintf(drop, "stderr")+`
		WHERE workspace_id = $1 AND length(stdout) + length(stderr) > 2 * length($3) AND sequence <= (
			SELECT max(sequence) FROM (
				SELECT sequence, sum(length(stdout) + length(stderr)) OVER (ORDER BY sequence DESC) AS kept FROM commands WHERE workspace_id = $1
			) WHERE kept > $2)`, id, HistoryBytes, []byte(Dropped))
	return err
}

// blob replaces nil by an empty slice, because SQLite stores nil as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Commands returns the history of a workspace, oldest first.
func (s *Store) Commands(ctx context.Context, id string) ([]Command, error) {
	return s.CommandsAfter(ctx, id, 0, nil)
}

// CommandsAfter returns the commands whose numbers are above last or listed in others, oldest
// first. It does not read the output of other commands.
func (s *Store) CommandsAfter(ctx context.Context, id string, last int, others []int) ([]Command, error) {
	return collect(ctx, s, func(row row) (Command, error) { return scanCommand(row, id) }, `SELECT sequence, argv, cwd, started_at, ended_at, result, stdout, stderr
		FROM commands WHERE workspace_id = $1 AND (sequence > $2 OR sequence IN (SELECT value FROM json_each($3))) ORDER BY sequence`,
		id, last, text(append([]int{}, others...)))
}

// Command returns a command by its number. The error has kind NotFound if the history does not
// contain the number.
func (s *Store) Command(ctx context.Context, id string, sequence int) (Command, error) {
	all, err := collect(ctx, s, func(row row) (Command, error) { return scanCommand(row, id) }, `SELECT sequence, argv, cwd, started_at, ended_at, result, stdout, stderr
		FROM commands WHERE workspace_id = $1 AND sequence = $2`, id, sequence)
	if err == nil && len(all) == 0 {
		err = fault.New(fault.NotFound, "find command", id, "the history has no command %d", sequence).
			WithHint("%s", fault.Act("workspace_logs", "pyro workspace logs %s", id))
	}
	if err != nil {
		return Command{}, err
	}
	return all[0], nil
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
