// Package storetest provides databases of each kind for tests of control planes.
package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver pgx

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// Each runs a test with an empty SQLite database and with an empty PostgreSQL database.
func Each(t *testing.T, test func(t *testing.T, address string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "control.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, postgres(t)) })
}

// Open opens a database for a test. A new SQLite database is a copy of one that Open makes only
// once, because the migrations take long under the race detector.
func Open(t testing.TB, address string) *store.Store {
	t.Helper()
	if _, err := os.Stat(address); filepath.IsAbs(address) && errors.Is(err, os.ErrNotExist) {
		content, err := migrated()
		if err == nil {
			err = os.WriteFile(address, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// migrated returns the content of an empty SQLite database with the current schema.
var migrated = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "pyro-storetest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "control.db")
	s, err := store.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil { // moves all changes to the file
		return nil, err
	}
	return os.ReadFile(path)
})

// server is the PostgreSQL server of this process. End ends it.
var server struct {
	sync.Mutex
	folder  string
	process *exec.Cmd
	made    atomic.Int64 // databases
}

// Main runs the tests of a package, then ends the PostgreSQL server that they used.
func Main(m *testing.M) int {
	defer End()
	return m.Run()
}

// End ends the server of this process, with all its databases. It is idempotent.
func End() {
	server.Lock()
	defer server.Unlock()
	if server.process != nil {
		server.process.Process.Signal(syscall.SIGINT) // a fast shutdown
		server.process.Wait()
		os.RemoveAll(server.folder)
		server.process = nil
	}
}

// postgres returns the address of a new database.
func postgres(t *testing.T) string {
	t.Helper()
	address, err := Postgres(t.Context())
	if errors.Is(err, exec.ErrNotFound) {
		testenv.NeedsTool(t, "postgres")
	}
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Postgres returns the address of a new PostgreSQL database. The first call starts a server, which
// listens only on a Unix socket. The error is exec.ErrNotFound if PostgreSQL is not installed.
func Postgres(ctx context.Context) (string, error) {
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(programs) == 0 {
		return "", &exec.Error{Name: "postgres", Err: exec.ErrNotFound}
	}
	server.Lock()
	defer server.Unlock()
	if server.process == nil {
		if err := start(filepath.Dir(programs[0])); err != nil {
			return "", err
		}
	}
	name := fmt.Sprintf("test%d", server.made.Add(1))
	db, err := sql.Open("pgx", address("postgres"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return address(name), nil
}

func address(database string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&user=pyro", database, server.folder)
}

// start starts the server. PostgreSQL refuses to run as root, so tests of root start it as another
// user.
func start(programs string) error {
	folder, err := os.MkdirTemp("", "pyro-postgres-")
	if err != nil {
		return err
	}
	var user *syscall.Credential
	if os.Getuid() == 0 {
		user = &syscall.Credential{Uid: 65534, Gid: 65534}
		if err := os.Chown(folder, 65534, 65534); err != nil {
			return err
		}
	}
	as := func(name string, arguments ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(programs, name), arguments...)
		cmd.Dir = folder
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	data := filepath.Join(folder, "data")
	if out, err := as("initdb", "--pgdata", data, "--username", "pyro", "--auth", "trust", "--no-sync", "--locale", "C.UTF-8").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	cmd := as("postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200")
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	server.folder, server.process = folder, cmd
	return awaitServer()
}

func awaitServer() error {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	db, err := sql.Open("pgx", address("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	for {
		if err := db.PingContext(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
