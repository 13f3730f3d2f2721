package main

import (
	"testing"

	"gvisor.dev/gvisor/pkg/errors/linuxerr"
)

// TestHugeReservation checks that a huge reservation fails before it changes the counter. Several
// of them at the same time would make the counter positive.
func TestHugeReservation(t *testing.T) {
	var q quota
	q.left.Store(1 << 30)
	if given, err := q.take(nil, nil, 1<<62); given != 0 || err != linuxerr.ENOSPC {
		t.Errorf("got %d bytes, %v", given, err)
	}
	if left := q.left.Load(); left != 1<<30 {
		t.Errorf("%d bytes are left", left)
	}
}
