package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/control/store/storetest"
)

// recordRows is the number of sandboxes in the list that records measures.
const recordRows = 1000

// idleTime is how long records watches an idle server.
const idleTime = 10 * time.Second

// records measures pyro serve without machines: an idle server, and a long list of sandboxes from
// each kind of database. The floor of a list is the query in this process.
func (b *bench) records() error {
	for _, kind := range []string{"SQLite", "PostgreSQL"} {
		if err := b.recordsIn(kind); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

func (b *bench) recordsIn(kind string) (err error) {
	state, err := os.MkdirTemp(b.dir, "records-")
	if err != nil {
		return err
	}
	address := filepath.Join(state, "control.db")
	if kind == "PostgreSQL" {
		defer storetest.End()
		address, err = storetest.Postgres(b.ctx)
		if errors.Is(err, exec.ErrNotFound) {
			fmt.Fprintln(os.Stderr, "lists from PostgreSQL are not measured:", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	s, err := startServer(b.ctx, state, pyro.IsolationAuto, "--database", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := b.idleServer(s, kind); err != nil {
		return err
	}
	records, err := store.Open(b.ctx, address)
	if err != nil {
		return err
	}
	defer records.Close()
	team, err := b.addRecords(records)
	if err != nil {
		return err
	}
	return b.list(s, records, team, kind)
}

// idleServer measures the memory and the processor time of a server without requests.
func (b *bench) idleServer(s *apiServer, kind string) error {
	time.Sleep(2 * time.Second) // wait until the server has started completely
	pids := []int{s.cmd.Process.Pid}
	before := processorTime(pids)
	time.Sleep(idleTime)
	share := 100 * (processorTime(pids) - before).Seconds() / idleTime.Seconds()
	pss, err := kilobytes(s.cmd.Process.Pid, "smaps_rollup", "Pss")
	if err != nil {
		return err
	}
	b.figures = append(b.figures,
		figure("pyro serve, idle with "+kind+": memory (PSS)", "MiB", []float64{pss}).atMost(60),
		figure("pyro serve, idle with "+kind+": share of a processor", "%", []float64{share}).atMost(0.5))
	return nil
}

// addRecords adds records of sandboxes, and returns their team.
func (b *bench) addRecords(records *store.Store) (team string, err error) {
	t, err := records.FirstTeam(b.ctx)
	if err != nil {
		return "", err
	}
	hosts, err := records.Hosts(b.ctx)
	if err != nil {
		return "", err
	}
	now := time.Now().UTC()
	for i := range recordRows {
		at := now.Add(time.Duration(i) * time.Millisecond)
		_, _, err := records.AddSandbox(b.ctx, store.NewSandbox{Sandbox: store.Sandbox{
			ID: store.NewID(store.SandboxPrefix), TeamID: t.ID, HostID: hosts[0].ID, Wanted: store.WantPaused, Status: "paused", Made: true,
			Template: environmentName, VCPUs: 1, MemoryMB: 512, DiskMB: 5120, CreatedBy: "bench",
			Metadata:  map[string]string{"task": fmt.Sprintf("task %d", i), "branch": "main"},
			CreatedAt: at, StartedAt: at, ActiveAt: at, UpdatedAt: at,
		}})
		if err != nil {
			return "", err
		}
	}
	return t.ID, nil
}

// list measures GET /v1/sandboxes.
func (b *bench) list(s *apiServer, records *store.Store, team, kind string) error {
	var all []struct{ ID string }
	if err := s.call(b.ctx, http.MethodGet, "/v1/sandboxes", nil, &all); err != nil {
		return err
	}
	if len(all) != recordRows {
		return fmt.Errorf("the list has %d sandboxes", len(all))
	}
	r, err := b.times(max(b.n, 10)*15, func() error {
		return s.call(b.ctx, http.MethodGet, "/v1/sandboxes", nil, nil)
	}, func() error {
		_, err := records.Sandboxes(b.ctx, team)
		return err
	})
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("pyro serve: GET /v1/sandboxes with 1,000 rows in "+kind+"; floor: the query", "ms", r[0]).p95AtMost(r[1], 20))
	return nil
}
