package demo

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestQuoted checks that a shell reads quoted words unchanged. Users can then copy the commands of
// the tour.
func TestQuoted(t *testing.T) {
	for _, words := range [][]string{runTest, serve, fetch, destroy, reach, {typed}, {"a'b", `"`, "$HOME `x` \\", "*", "a;b"}} {
		out, err := exec.Command("sh", "-c", `printf '%s\0' `+quoted(words)).Output()
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, words) {
			t.Errorf("%q was parsed as %q, %v", words, got, err)
		}
	}
}

func TestShown(t *testing.T) {
	key := pyro.NewSecretValue("sk-1")
	for text, want := range map[string]string{
		"  a\x1b[2Jb\r\n": "a[2Jb", "sk-\x001 and sk-1": key.String() + " and " + key.String(), "\xff\xfe": "",
		strings.Repeat("é", maxShown): strings.Repeat("é", maxShown/2) + "\n[…]",
	} {
		if got := shown(text, key); got != want {
			t.Errorf("%.40q is shown as %.40q, not %.40q", text, got, want)
		}
	}
}

// TestFailedTour checks that a tour reports the failure of its first step and leaves no files.
func TestFailedTour(t *testing.T) {
	t.Setenv("PYRO_QEMU", "no-such-qemu")
	t.Setenv("PYRO_RUNSC", "/no-such-runsc")
	t.Setenv("TMPDIR", t.TempDir())
	p, err := pyro.New(pyro.Options{CacheDir: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	begun, ended := 0, 0
	report, err := Tour(t.Context(), p, TourRequest{
		Begin: func(number, of int, s Step) {
			if begun++; number != 1 || of != 14 || s.Name != "create" {
				t.Errorf("step %d of %d: %+v", number, of, s)
			}
		},
		End: func(s Step) { ended++ },
	})
	if fault.KindOf(err) != fault.Unavailable || report.OK || report.Error == nil || report.Error.Kind != fault.Unavailable || len(report.Steps) != 1 || begun != 1 || ended != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
