package volume

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestCloseWaitsForOperations checks that Close waits for running operations and rejects new ones.
func TestCloseWaitsForOperations(t *testing.T) {
	s := storedIn(t, t.TempDir())
	v := s.volume
	done, err := v.Use()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := v.Close(ctx); err != context.DeadlineExceeded {
		t.Errorf("closed while it is used: %v", err)
	}
	if _, err := v.Use(); !errors.Is(err, ErrClosed) {
		t.Errorf("used after it was closed: %v", err)
	}
	if err := v.Flush(); !errors.Is(err, ErrNotReady) {
		t.Errorf("flushed after it was closed: %v", err)
	}
	done()
	s.close(t)
	s.close(t)
	if v.root.Fd() != ^uintptr(0) {
		t.Error("it is still open")
	}
}
