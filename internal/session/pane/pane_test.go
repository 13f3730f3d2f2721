package pane

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestPanes has panes in a folder of any name, whose server and socket go with the last of them.
func TestPanes(t *testing.T) {
	testenv.NeedsTool(t, "tmux")
	folder := t.TempDir() + "/it's a #{pid} %Y " + strings.Repeat("x", 120)
	first, second := Pane{folder, "s", "1-a"}, Pane{folder, "s", "1-ab"}
	if err := first.Close(t.Context()); err != nil {
		t.Errorf("closing what never was: %v", err)
	}
	opened, err := first.Open(t.Context(), 70, 20, "sh", "-c", `read x; printf "%s" "$x"; exit 3`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Find(t.Context()); !errors.Is(err, ErrNoPane) {
		t.Errorf("found what is not there: %v", err)
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
	for deadline := time.Now().Add(5 * time.Second); got != "héllo\r\nhéllo"; time.Sleep(time.Millisecond) {
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
		t.Errorf("the socket is left: %v", err)
	}
	if _, err := second.Find(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("a server is left: %v", err)
	}
}
