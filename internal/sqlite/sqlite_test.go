package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// adderVariable names the database to which this program adds a row, instead of running tests.
const adderVariable = "SQLITE_TEST_ADDER"

func TestMain(m *testing.M) {
	if path := os.Getenv(adderVariable); path != "" {
		if err := add(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// add opens a database, adds a row and closes the database.
func add(path string) error {
	db, err := Open(path, Immediate)
	if err != nil {
		return err
	}
	defer db.Close()
	return insert(db)
}

func insert(db *sql.DB) error {
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY)"); err != nil {
		return err
	}
	_, err := db.Exec("INSERT INTO rows DEFAULT VALUES")
	return err
}

// addElsewhere adds a row in another process.
func addElsewhere(ctx context.Context, path string) error {
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), adderVariable+"="+path)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func count(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := Open(path, Deferred)
	check(t, err)
	defer db.Close()
	check(t, db.QueryRow("SELECT COUNT(*) FROM rows").Scan(&n))
	return n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sharedStart and sharedLen are the bytes that SQLite locks while it uses a database. See
// https://www.sqlite.org/src/file/src/os_unix.c.
const (
	sharedStart = 0x40000000 + 2
	sharedLen   = 510
)

// TestSecondOpenKeepsLock checks that a connection keeps its lock if this process opens the
// database again. Without the lock, another process could remove the write-ahead log. POSIX locks
// end when a process closes any descriptor of the file, so Open must not open a database that
// exists.
func TestSecondOpenKeepsLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	one, err := Open(path, Immediate)
	check(t, err)
	check(t, insert(one))
	two, err := Open(path, Immediate)
	check(t, err)
	f, err := os.Open(path)
	check(t, err)
	want := unix.Flock_t{Type: unix.F_WRLCK, Start: sharedStart, Len: sharedLen}
	check(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &want))
	if want.Type != unix.F_RDLCK {
		t.Errorf("the lock on the database has type %d, want %d", want.Type, unix.F_RDLCK)
	}
	check(t, two.Close())
	check(t, one.Close())
	check(t, f.Close())
}

// TestCreatedByManyProcesses lets processes create a database at the same time.
func TestCreatedByManyProcesses(t *testing.T) {
	const processes = 8
	for range 3 {
		path := filepath.Join(t.TempDir(), "a.db")
		var all sync.WaitGroup
		for range processes {
			all.Go(func() {
				if err := addElsewhere(t.Context(), path); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := count(t, path); n != processes {
			t.Errorf("the database has %d rows, want %d", n, processes)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}
