package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openPipe() (r, w *os.File, err error) { return os.Pipe() }

// TestLongArgumentErrors checks errors that gVisor reports for long arguments.
func TestLongArgumentErrors(t *testing.T) {
	for want, argv := range map[string][]string{
		"Linux allows 131071": {"true", strings.Repeat("x", 200<<10)},
		"too long together":   append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", 99<<10)}, 30)...),
		"name too long":       {"/" + strings.Repeat("x", 300), "argument"},
	} {
		if got := explained(&programv1.Command{Argv: argv}, syscall.ENAMETOOLONG); !strings.Contains(got.Error(), want) {
			t.Errorf("%v, not %q", got, want)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"a/plain": 0o644, "b/plain": 0o644, "b/tool": 0o755, "c/tool": 0o755, "c/plain": 0o700, "here": 0o755} {
		os.MkdirAll(filepath.Dir(at(name)), 0o755)
		if err := os.WriteFile(at(name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	os.MkdirAll(at("a/tool"), 0o755) // a folder with the name of the program
	os.Symlink("nowhere", at("a/link"))
	os.Symlink("../c/tool", at("b/link"))
	os.Symlink("self", at("a/self"))
	for name, c := range map[string]struct {
		name, path string
		want       string
		err        error
	}{
		"first of two":                       {"tool", at("b") + ":" + at("c"), at("b/tool"), nil},
		"past a folder":                      {"tool", at("a") + ":" + at("c"), at("c/tool"), nil},
		"past a file that is not executable": {"plain", at("a") + ":" + at("c"), at("c/plain"), nil},
		"no executable file":                 {"plain", at("a") + ":" + at("b") + ":/nowhere", "", syscall.EACCES},
		"nowhere":                            {"none", at("a") + ":" + at("b"), "", syscall.ENOENT},
		"past a dead link":                   {"link", at("a") + ":" + at("b"), at("b/link"), nil},
		"a link to itself":                   {"self", at("a"), "", syscall.ENOENT},
		"empty name":                         {"", at("b"), "", syscall.ENOENT},
		"empty PATH is here":                 {"here", "", "./here", nil},
		"empty part is here":                 {"here", at("a") + "::" + at("b"), "./here", nil},
		"dot":                                {"here", ".", "./here", nil},
		"relative part":                      {"tool", "c", "c/tool", nil},
		"absolute":                           {at("b/tool"), "", at("b/tool"), nil},
		"relative":                           {"b/tool", "", "b/tool", nil},
		"relative, absent":                   {"b/none", "", "", syscall.ENOENT},
		"no search for a path":               {"./tool", at("b"), "", syscall.ENOENT},
		"not executable":                     {at("b/plain"), "", "", syscall.EACCES},
		"folder":                             {at("b"), "", "", syscall.EACCES},
		"below a file":                       {at("here/x"), "", "", syscall.ENOTDIR},
	} {
		got, err := find(c.name, []string{"PATH=/never", "PATH=" + c.path}, dir)
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %q, %v, want %v", name, got, err, c.err)
			}
		} else if got != c.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestCheck(t *testing.T) {
	good := func(change func(*programv1.Command)) *programv1.Command {
		req := &programv1.Command{ExecId: "x", Argv: []string{"true"}}
		change(req)
		return req
	}
	for name, c := range map[string]struct {
		change func(*programv1.Command)
		fine   bool
	}{
		"plain":              {func(*programv1.Command) {}, true},
		"64 bytes of id":     {func(r *programv1.Command) { r.ExecId = strings.Repeat("x", 64) }, true},
		"65 bytes of id":     {func(r *programv1.Command) { r.ExecId = strings.Repeat("x", 65) }, false},
		"no id":              {func(r *programv1.Command) { r.ExecId = "" }, false},
		"no words":           {func(r *programv1.Command) { r.Argv = nil }, false},
		"zero in a word":     {func(r *programv1.Command) { r.Argv = []string{"a", "\x00"} }, false},
		"zero in a variable": {func(r *programv1.Command) { r.Env = []string{"A=\x00"} }, false},
		"4 MiB":              {func(r *programv1.Command) { r.Argv = []string{strings.Repeat("x", maxArguments)} }, true},
		"more than 4 MiB":    {func(r *programv1.Command) { r.Argv = []string{"x", strings.Repeat("x", maxArguments)} }, false},
		"both together":      {func(r *programv1.Command) { r.Env = []string{"A=" + strings.Repeat("x", maxArguments)} }, false},
		"no name":            {func(r *programv1.Command) { r.Env = []string{"=x"} }, false},
		"no value":           {func(r *programv1.Command) { r.Env = []string{"A"} }, false},
		"empty value":        {func(r *programv1.Command) { r.Env = []string{"A="} }, true},
		"folder":             {func(r *programv1.Command) { r.Cwd = "/tmp" }, true},
		"relative folder":    {func(r *programv1.Command) { r.Cwd = "tmp" }, false},
		"zero in folder":     {func(r *programv1.Command) { r.Cwd = "/\x00" }, false},
		"long folder":        {func(r *programv1.Command) { r.Cwd = "/" + strings.Repeat("x", maxPath) }, false},
		"terminal":           {func(r *programv1.Command) { r.Tty = &programv1.Size{Cols: 1000, Rows: 1} }, true},
		"flat terminal":      {func(r *programv1.Command) { r.Tty = &programv1.Size{Cols: 80} }, false},
		"wide terminal":      {func(r *programv1.Command) { r.Tty = &programv1.Size{Cols: 1001, Rows: 1} }, false},
	} {
		if err := check(good(c.change)); err == nil != c.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExecs(t *testing.T) {
	e := newExecs()
	ctx := context.Background()
	if err := e.reserve("a"); err != nil {
		t.Fatal(err)
	}
	if err := e.reserve("a"); err != errKnown {
		t.Errorf("used ID: got %v", err)
	}
	// If an exec is still starting, get waits until its context ends.
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if p, err := e.get(short, "a"); p != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", p, err)
	}
	want := &process{}
	time.AfterFunc(10*time.Millisecond, func() { e.set("a", want) })
	if p, err := e.get(ctx, "a"); p != want || err != nil {
		t.Errorf("got %v, %v", p, err)
	}
	if p, err := e.get(ctx, "b"); p != nil || err != nil {
		t.Errorf("an unknown id: %v, %v", p, err)
	}
	// A released exec exists until it ends, and its ID can't be used again.
	e.release("a")
	e.release("late")
	if p, _ := e.get(ctx, "a"); p != want {
		t.Errorf("got %v", p)
	}
	e.forget("a")
	for _, id := range []string{"a", "late"} {
		if err := e.reserve(id); err != errKnown {
			t.Errorf("%s: %v", id, err)
		}
	}
	// The numbers of execs and of released IDs are limited.
	for i := range 3 * maxReleased {
		e.release(fmt.Sprint("released", i))
	}
	if len(e.released) != maxReleased || len(e.order) != maxReleased {
		t.Errorf("%d and %d ids are remembered", len(e.released), len(e.order))
	}
	if err := e.reserve(fmt.Sprint("released", 3*maxReleased-1)); err != errKnown {
		t.Errorf("the last: %v", err)
	}
	for i := range maxExecs {
		if err := e.reserve(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.reserve("one more"); err != errTooMany {
		t.Errorf("one more: %v", err)
	}
}

func TestThread(t *testing.T) {
	if _, err := NewThread(func() error { return os.ErrInvalid }); err != os.ErrInvalid {
		t.Errorf("got %v", err)
	}
	thread, err := NewThread(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for range 5 {
		thread.Do(func() error { ids = append(ids, syscall.Gettid()); return nil })
	}
	if slices.Min(ids) != slices.Max(ids) {
		t.Errorf("it is many threads: %v", ids)
	}
	if err := thread.Do(func() error { return os.ErrExist }); err != os.ErrExist {
		t.Errorf("got %v", err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for thread.Do(func() error { return nil }) == nil {
		}
	}()
	thread.Stop()
	<-stopped
}
