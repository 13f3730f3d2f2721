package environment

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestUnnamedImage checks that an added image stays installed while it is in use or in the
// list to keep. After that the image is removed.
func TestUnnamedImage(t *testing.T) {
	s := testStore(t.TempDir())
	fill := func(w *mkext4.Writer) error {
		return w.Add("a", mkext4.Entry{Mode: unix.S_IFDIR | 0o755, Modified: time.Unix(1, 0)}, nil)
	}
	one, err := s.Add(t.Context(), "debian:12", nil, fill)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Add(t.Context(), "debian:12", nil, fill)
	if err != nil || two.Digest != one.Digest || one.SizeBytes == 0 {
		t.Fatalf("the same content: %v, %v, %v", one, two, err)
	}
	there := func() bool { _, err := os.Stat(one.Image); return err == nil }
	one.Close()
	if err := s.Sweep(t.Context(), nil); err != nil || !there() {
		t.Errorf("it is used, and gone: %v", err)
	}
	two.Close()
	if err := s.Sweep(t.Context(), keeping(one.Digest)); err != nil || !there() {
		t.Errorf("the kept image was removed: %v", err)
	}
	three, err := s.UseDigest(t.Context(), one.Digest, "debian:12", nil)
	if err != nil || three.Image != one.Image {
		t.Errorf("%v, %v", three, err)
	}
	three.Close()
	if _, err := s.Prune(t.Context(), PruneOptions{All: true}); err != nil || !there() {
		t.Errorf("pruned: %v", err)
	}
	if err := s.Sweep(t.Context(), nil); err != nil || there() {
		t.Errorf("Sweep of an unused image: got %v, or the image still exists", err)
	}
	if left := leftovers(t, s.added); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	no := fault.Newf(fault.Corrupt, "no")
	if _, err := s.Add(t.Context(), "debian:12", nil, func(*mkext4.Writer) error { return no }); fault.KindOf(err) != fault.Corrupt {
		t.Error(err)
	}
	if left := leftovers(t, s.added); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
