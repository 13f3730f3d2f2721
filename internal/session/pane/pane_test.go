package pane

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestPanes uses panes in a folder with an unusual name. It checks that the server ends with the
// last pane, and that the socket is removed.
func TestPanes(t *testing.T) {
	testenv.NeedsTool(t, "tmux")
	folder := t.TempDir() + "/it's a #{pid} %Y " + strings.Repeat("x", 120)
	first, second := Pane{folder, "s", "1-a"}, Pane{folder, "s", "1-ab"}
	if err := first.Close(t.Context()); err != nil {
		t.Errorf("closing a pane that never was: %v", err)
	}
	opened, err := first.Open(t.Context(), 70, 20, "sh", "-c", `read x; printf "%s" "$x"; exit 3`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Find(t.Context()); !errors.Is(err, ErrNoPane) {
		t.Errorf("found a missing pane: %v", err)
	}
	if _, err := second.Open(t.Context(), 70, 20, "sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	file := folder + "/out"
	if err := first.Pipe(t.Context(), "sh", "-c", `cat >"$0"`, file); err != nil {
		t.Fatal(err)
	}
	if err := first.Type(t.Context(), []byte("héllo\n")); err != nil {
		t.Fatal(err)
	}
	if f, err := first.End(t.Context(), opened.PID); err != nil || !f.Dead || !f.KnowsEnd || f.Status.ExitStatus() != 3 || f.Server != opened.Server {
		t.Errorf("%+v, %v", f, err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var got string
	for deadline := time.Now().Add(testenv.Patience); got != "héllo\r\nhéllo"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q came", got)
		}
		b, _ := os.ReadFile(file)
		got = string(b)
	}
	if _, err := second.Find(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(folder + "/socket"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("leftover socket: %v", err)
	}
	if _, err := second.Find(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("leftover server: %v", err)
	}
}
