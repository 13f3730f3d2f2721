package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Service is a program that was started in the background under a name.
type Service struct {
	Name      string
	Spec      ServiceSpec
	StartedAt time.Time
	ReadyAt   time.Time // zero: it was not, so far
	EndedAt   time.Time // zero: it has not, or its machine ended before it did
	Result    ServiceResult
}

// ServiceSpec is what was started.
type ServiceSpec struct {
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd"`
	Readiness *ServiceReadiness `json:"readiness,omitempty"`
	Secrets   []string          `json:"secrets,omitempty"` // names of those that it has
	Ports     []Port            `json:"ports,omitempty"`   // that it publishes while it runs
}

// Port is one of the machine that is one of 127.0.0.1 on the host.
type Port struct {
	Guest int `json:"guest"`
	Host  int `json:"host"`
}

// ServiceReadiness says what it was waited for.
type ServiceReadiness struct {
	Type       string `json:"type"` // file, tcp, http or command
	Target     string `json:"target"`
	TimeoutMS  int    `json:"timeout_ms"`
	IntervalMS int    `json:"interval_ms"`
}

// ServiceResult is how it ended.
type ServiceResult struct {
	ExitCode    int    `json:"exit_code"`
	Signal      int    `json:"signal,omitempty"`
	NotRun      string `json:"not_run,omitempty"`       // why the program never ran
	Broken      string `json:"broken,omitempty"`        // why nobody saw its end
	OutOfMemory bool   `json:"out_of_memory,omitempty"` //
	Stopped     bool   `json:"stopped,omitempty"`       // it was told to end
	Failed      string `json:"failed,omitempty"`        // why it did not become ready
}

// PutService notes a service, in the place of one of its name that was started before. Of one that was started before another of its name nothing is noted any more.
func (s *Store) PutService(ctx context.Context, id string, v Service) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT 1 FROM workspaces WHERE id = $1", id).Scan(new(int)); err != nil {
			return s.missing(err, id)
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO services (workspace_id, name, spec, started_at, ready_at, ended_at, result)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (workspace_id, name) DO UPDATE SET spec = $3, started_at = $4, ready_at = $5, ended_at = $6, result = $7 WHERE started_at <= $4`,
			id, v.Name, text(v.Spec), nanos(v.StartedAt), nanos(v.ReadyAt), nanos(v.EndedAt), text(v.Result))
		return err
	})
}

const serviceColumns = "name, spec, started_at, ready_at, ended_at, result"

func scanService(row row) (v Service, err error) {
	var spec, result string
	var started, ready, ended int64
	if err := row.Scan(&v.Name, &spec, &started, &ready, &ended, &result); err != nil {
		return v, err
	}
	v.StartedAt, v.ReadyAt, v.EndedAt = at(started), at(ready), at(ended)
	if err := errors.Join(json.Unmarshal([]byte(spec), &v.Spec), json.Unmarshal([]byte(result), &v.Result)); err != nil {
		return v, fault.New(fault.Corrupt, "read service", v.Name, "%w", err)
	}
	return v, nil
}

// Services gives those of a workspace, sorted by name.
func (s *Store) Services(ctx context.Context, id string) ([]Service, error) {
	return collect(ctx, s, scanService, "SELECT "+serviceColumns+" FROM services WHERE workspace_id = $1 ORDER BY name", id)
}

// Service gives one. NotFound where there was none of its name.
func (s *Store) Service(ctx context.Context, id, name string) (Service, error) {
	db, err := s.connected(ctx)
	if err != nil {
		return Service{}, err
	}
	v, err := scanService(db.QueryRowContext(ctx, "SELECT "+serviceColumns+" FROM services WHERE workspace_id = $1 AND name = $2", id, name))
	if errors.Is(err, sql.ErrNoRows) {
		return v, fault.New(fault.NotFound, "find service", name, "there is none of this name").WithHint("%s", fault.Act("service_list", "pyro workspace service list %s", id))
	}
	return v, s.fault(err)
}
