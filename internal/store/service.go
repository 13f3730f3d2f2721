package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Service is a named background program.
type Service struct {
	Name      string
	Spec      ServiceSpec
	StartedAt time.Time
	ReadyAt   time.Time // zero until it is ready
	EndedAt   time.Time // zero if it still runs, or if its machine ended before it
	Result    ServiceResult
}

// ServiceSpec is the specification of a service.
type ServiceSpec struct {
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd"`
	Readiness *ServiceReadiness `json:"readiness,omitempty"`
	Secrets   []string          `json:"secrets,omitempty"` // names of its secrets
	Ports     []Port            `json:"ports,omitempty"`   // ports to publish while it runs
	Restart   RestartPolicy     `json:"restart,omitempty"` // empty: never
}

// RestartPolicy controls whether a service is restarted after its program has ended.
type RestartPolicy string

// The policies.
const (
	RestartNo        RestartPolicy = "no"
	RestartOnFailure RestartPolicy = "on-failure" // if the exit code is not 0
	RestartAlways    RestartPolicy = "always"
)

// RestartPolicies are all policies.
var RestartPolicies = []RestartPolicy{RestartNo, RestartOnFailure, RestartAlways}

// After reports whether a program is started again after an exit.
func (p RestartPolicy) After(e program.Exit) bool {
	return p == RestartAlways || p == RestartOnFailure && e.Code != 0
}

// Restarts describes the restarts of a service. It is set only if the service has a restart policy.
type Restarts struct {
	Count int          `json:"count,omitempty"`
	Waits bool         `json:"waits,omitempty"` // its program has ended, and will be started again after a delay
	Exit  program.Exit `json:"exit,omitzero"`   // the last end of its program
	At    time.Time    `json:"at,omitzero"`     // when that was; zero: the first run has not ended
}

// Port publishes a port of the machine on 127.0.0.1 of the host.
type Port struct {
	Guest  int `json:"guest"`
	Host   int `json:"host"`
	Wanted int `json:"wanted,omitempty"` // the port of the host that another program took during a pause; 0: Host is as wanted
}

// ServiceReadiness is the check that must succeed before a service counts as ready.
type ServiceReadiness struct {
	Type       string `json:"type"` // file, tcp, http or command
	Target     string `json:"target"`
	TimeoutMS  int    `json:"timeout_ms"`
	IntervalMS int    `json:"interval_ms"`
}

// ServiceResult is the outcome of a service.
type ServiceResult struct {
	program.Exit
	Broken  string `json:"broken,omitempty"`  // why the end was not observed; if it is set, Exit is not valid.
	Stopped bool   `json:"stopped,omitempty"` // it ended because a caller stopped it.
	Failed  string `json:"failed,omitempty"`  // why it did not become ready

	Restarts Restarts `json:"restarts,omitzero"`
}

// PutService stores a service. It replaces a service of the same name, unless the stored service
// was started later. If the stored service has ended, a running service always replaces it, because
// the clock might have been set back.
func (s *Store) PutService(ctx context.Context, id string, v Service) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT 1 FROM workspaces WHERE id = $1", id).Scan(new(int)); err != nil {
			return s.missing(err, id)
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO services (workspace_id, name, spec, started_at, ready_at, ended_at, result)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (workspace_id, name) DO UPDATE SET spec = $3, started_at = $4, ready_at = $5, ended_at = $6, result = $7
			WHERE services.started_at <= $4 OR services.ended_at <> 0 AND $6 = 0`,
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

// Services returns the services of a workspace, sorted by name.
func (s *Store) Services(ctx context.Context, id string) ([]Service, error) {
	return collect(ctx, s, scanService, "SELECT "+serviceColumns+" FROM services WHERE workspace_id = $1 ORDER BY name", id)
}

// Service returns a service by name. If there is no such service, the error has the kind NotFound.
func (s *Store) Service(ctx context.Context, id, name string) (Service, error) {
	db, err := s.connected(ctx)
	if err != nil {
		return Service{}, err
	}
	v, err := scanService(db.QueryRowContext(ctx, "SELECT "+serviceColumns+" FROM services WHERE workspace_id = $1 AND name = $2", id, name))
	if errors.Is(err, sql.ErrNoRows) {
		return v, fault.New(fault.NotFound, "find service", name, "no service has this name").WithHint("%s", fault.Act("service_list", "pyro workspace service list %s", id))
	}
	return v, s.fault(err)
}
