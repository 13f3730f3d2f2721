package session

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestRemoveWhileLocked removes sessions while other goroutines lock them, which creates a file. It
// checks that Collect removes the rest of an interrupted removal.
func TestRemoveWhileLocked(t *testing.T) {
	m := &Manager{Root: t.TempDir()}
	var looking sync.WaitGroup
	for n := range 200 {
		f, err := Create(m.Root, Spec{ID: NewID(time.Now(), n), OutputBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		removed := make(chan struct{})
		for range 2 {
			looking.Go(func() {
				for {
					select {
					case <-removed:
						return
					default:
						if lock, err := f.LockProcess(); err == nil {
							lock.Release()
						}
					}
				}
			})
		}
		for range 2 {
			looking.Go(func() {
				if err := f.Remove(); err != nil {
					t.Error(err)
				}
			})
		}
		time.AfterFunc(time.Millisecond, func() { close(removed) })
		looking.Wait()
	}
	if err := os.MkdirAll(filepath.Join(m.Root, removedPrefix+"1-1-00000000", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.Collect(time.Now()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(m.Root); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestRemoveWhileFilesAppear removes sessions while a process that opened the folder before
// creates a few files in it.
func TestRemoveWhileFilesAppear(t *testing.T) {
	root := t.TempDir()
	for n := range 200 {
		f, err := Create(root, Spec{ID: NewID(time.Now(), n), OutputBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		folder, err := os.OpenRoot(string(f))
		if err != nil {
			t.Fatal(err)
		}
		var creating sync.WaitGroup
		creating.Go(func() {
			defer folder.Close()
			for i := range maxRemovals / 2 {
				file, err := folder.Create(fmt.Sprint("new-", i))
				if err != nil {
					return // the folder was removed
				}
				file.Close()
			}
		})
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
		creating.Wait()
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
