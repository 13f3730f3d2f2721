package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// Audit is an entry of the audit log. It has no content: no command, file or value.
type Audit struct {
	ID        string
	TeamID    string
	ActorType string // ActorUser, ActorKey or ActorSystem
	ActorID   string
	ActorName string
	Action    string // such as create
	Resource  string // such as sandbox
	Subject   string // the id of the resource
	Name      string // the name of the resource at that time; empty: it has none
	Address   string // of the client
	Result    string // AuditOK, or the kind of the error
	At        time.Time
}

// The types of actors.
const (
	ActorUser   = "user"
	ActorKey    = "api_key"
	ActorSystem = "system"
)

// The audit log keeps entries for auditTime. One in trimEvery new entries also removes up to
// trimmed expired entries, so that adding an entry stays fast.
const (
	auditTime = 365 * 24 * time.Hour
	trimmed   = 10 * trimEvery
)

// AuditOK is the result of an action that succeeded.
const AuditOK = "ok"

const auditFields = "id, team_id, actor_type, actor_id, actor_name, action, resource, subject, name, address, result, at"

func scanAudit(r row) (a Audit, err error) {
	var at int64
	err = r.Scan(&a.ID, &a.TeamID, &a.ActorType, &a.ActorID, &a.ActorName, &a.Action, &a.Resource, &a.Subject, &a.Name, &a.Address, &a.Result, &at)
	a.At = moment(at)
	return a, err
}

// AddAudit adds an entry with a new ID.
func (s *Store) AddAudit(ctx context.Context, a Audit) error {
	trim := s.audits.Add(1)%trimEvery == 1
	return s.change(ctx, func(tx *sql.Tx) error {
		if trim {
			if _, err := tx.ExecContext(ctx, "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < $1 ORDER BY id LIMIT $2)",
				newOrderedID(AuditPrefix, a.At.Add(-auditTime)), trimmed); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO audit ("+auditFields+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
			newOrderedID(AuditPrefix, a.At), a.TeamID, a.ActorType, a.ActorID, a.ActorName, a.Action, a.Resource, a.Subject, a.Name, a.Address, a.Result, micros(a.At))
		return err
	})
}

// AuditQuery selects entries of a team.
type AuditQuery struct {
	TeamID    string
	Before    time.Time // only entries before this time; zero: all
	BeforeID  string    // with an ID, entries at the time Before with a smaller ID are included
	Resources []string  // only entries with these; empty: all
	Without   []string  // no entries about these resources
	Actions   []string  // only entries with these; empty: all
	Limit     int
}

// Audits returns the latest selected entries, the latest first.
func (s *Store) Audits(ctx context.Context, q AuditQuery) ([]Audit, error) {
	args := []any{q.TeamID, micros(q.Before), q.BeforeID, q.Limit}
	query := "SELECT " + auditFields + " FROM audit WHERE team_id = $1 AND (CAST($2 AS BIGINT) = 0 OR at < $2 OR at = $2 AND id < $3)"
	for _, in := range []struct {
		condition string
		values    []string
	}{{" AND resource IN (", q.Resources}, {" AND resource NOT IN (", q.Without}, {" AND action IN (", q.Actions}} {
		if len(in.values) == 0 {
			continue
		}
		places := make([]string, 0, len(in.values))
		for _, v := range in.values {
			args = append(args, v)
			places = append(places, fmt.Sprintf("$%d", len(args)))
		}
		query += in.condition + strings.Join(places, ", ") + ")"
	}
	all, err := collect(ctx, s.read, scanAudit, query+" ORDER BY at DESC, id DESC LIMIT $4", args...)
	return all, s.fault(err)
}
