package session

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCreateWhileListed checks that all listed sessions are complete, even while other sessions are
// being created.
func TestCreateWhileListed(t *testing.T) {
	m := &Manager{Root: t.TempDir()}
	made := make(chan error, 1)
	go func() {
		for n := range 300 {
			if _, err := Create(m.Root, Spec{ID: NewID(time.Now(), n), OutputBytes: 1, CreatedAt: time.Now()}); err != nil {
				made <- err
				return
			}
		}
		made <- nil
	}()
	for done := false; !done; {
		select {
		case err := <-made:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		entries, err := os.ReadDir(m.Root)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range entries[max(0, len(entries)-2):] { // the newest sessions: their names sort last
			f := Folder(filepath.Join(m.Root, e.Name()))
			if _, err := f.Spec(); err != nil {
				continue
			}
			l, err := f.Log(Output)
			if err != nil {
				t.Fatalf("%s is listed without its log: %v", e.Name(), err)
			}
			if l.Mark().Load() == 0 {
				t.Errorf("the log of %s was not repaired", e.Name())
			}
			l.Close()
		}
	}
}

// TestIncompleteFolderIsCollected checks that Collect removes the incomplete folder of a killed
// process. Collect must keep sessions that are still being created.
func TestIncompleteFolderIsCollected(t *testing.T) {
	m := &Manager{Root: t.TempDir()}
	half := filepath.Join(m.Root, NewID(time.Now(), 1))
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		age   time.Duration
		stays bool
	}{{0, true}, {startTime / 2, true}, {2 * startTime, false}} {
		since := time.Now().Add(-c.age)
		if err := os.Chtimes(half, since, since); err != nil {
			t.Fatal(err)
		}
		if err := m.Collect(time.Now().Add(time.Hour)); err != nil { // the age of the folder does not depend on the argument
			t.Error(err)
		}
		if _, err := os.Stat(half); (err == nil) != c.stays {
			t.Errorf("after %v: %v", c.age, err)
		}
	}
}
