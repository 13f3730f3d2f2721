package template

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestPrune(t *testing.T) {
	s := Store{t.TempDir()}
	wanted, unwanted, used := Key{Root: "wanted"}, Key{Root: "unwanted"}, Key{Root: "used"}
	build(t, s, wanted).Close()
	build(t, s, unwanted).Close()
	build(t, s, used)
	dead := filepath.Join(s.Dir, "dead.part")
	os.Mkdir(dead, 0o700)
	os.WriteFile(filepath.Join(s.Dir, "dead.lock"), nil, 0o600)

	removed, err := s.Prune(func(i Info) bool { return i.Key == wanted })
	if err != nil {
		t.Fatal(err)
	}
	if len(removed) != 1 || removed[0].Key != unwanted || removed[0].SizeBytes == 0 {
		t.Errorf("removed %+v", removed)
	}
	left, _ := s.List()
	if len(left) != 2 {
		t.Errorf("left %+v", left)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Error("an interrupted build was not removed")
	}
}

func TestConcurrentPrune(t *testing.T) {
	s := Store{t.TempDir()}
	build(t, s, Key{Root: "unwanted"}).Close()
	removed, err := s.Prune(func(Info) bool {
		if removed, err := s.Prune(func(Info) bool { return false }); err != nil || len(removed) != 1 {
			t.Errorf("the faster one removed %+v, %v", removed, err)
		}
		return false
	})
	if err != nil || len(removed) != 0 {
		t.Errorf("the slower one removed %+v, %v", removed, err)
	}
}

func TestRetire(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "not", "there", "yet")}
	key := Key{Root: "a"}
	for _, remove := range []func() error{func() error { return s.Retire(t.Context(), key) }, func() error { return s.Reject(key) }} {
		if err := remove(); err != nil {
			t.Errorf("remove a missing template: %v", err)
		}
	}
	used := build(t, s, key)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Retire(ctx, key); fault.KindOf(err) != fault.Timeout {
		t.Errorf("while it is used: %v", err)
	}
	if _, err := os.Stat(used.Path("ram")); err != nil {
		t.Error(err)
	}
	gone := make(chan error)
	go func() { gone <- s.Retire(t.Context(), key) }()
	used.Close()
	if err := <-gone; err != nil {
		t.Error(err)
	}
	if _, err := s.Open(key); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it still exists: %v", err)
	}
	build(t, s, key)
}

func TestDetach(t *testing.T) {
	s, key := Store{t.TempDir()}, Key{Root: "folder"}
	used, err := s.Build(t.Context(), key, nil, fillFolder)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Detach(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Open(key); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if infos, err := s.List(); err != nil || len(infos) > 0 {
		t.Errorf("%v, %v", infos, err)
	}
	for _, inUse := range []bool{true, false} {
		if !inUse {
			used.Close()
		}
		if _, err := s.Prune(func(Info) bool { return true }); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(s.Dir + "/*" + detached + "*/root/etc/name")
		if err != nil || (len(names) == 1) != inUse {
			t.Errorf("in use: %t, left: %v, %v", inUse, names, err)
		}
	}
}
