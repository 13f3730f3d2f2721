package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// runSupervisor runs as the supervisor in these tests. The name of the workspace selects its
// behaviour.
func runSupervisor() int {
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	text, err := in.ReadBytes('\n')
	var o StartConfig
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	time.AfterFunc(testenv.Patience, func() { os.Exit(3) }) // even if a test hangs
	switch o.Workspace.Name {
	case "fails":
		report := fault.WireOf(fault.Wrap(fault.New(fault.Exhausted, "make disks", "", "the disk is full").WithHint("pyro env prune"), "start machine", "x"))
		out.Encode(StartMessage{Failed: &report})
		return 1
	case "dies":
		fmt.Fprintln(os.Stderr, "last words")
		return 2
	case "talks nonsense":
		fmt.Println("nonsense")
	case "talks without end":
		for range 64 {
			os.Stdout.WriteString(strings.Repeat("x", 64<<10))
		}
	case "reports":
		out.Encode(StartMessage{Progress: &progress.Event{}})
		out.Encode(StartMessage{Ready: true})
	case "is ready":
		out.Encode(StartMessage{Ready: true})
	case "is silent":
	}
	if _, err := in.ReadByte(); err != nil {
		os.WriteFile(filepath.Join(o.Folder, "abandoned"), nil, 0o600)
		return 1
	}
	switch o.Workspace.Disks.Checkpoint {
	case "goes on":
		out.Encode(StartMessage{Resumed: true})
	case "can't go on":
		report := fault.WireOf(fault.Newf(fault.Exhausted, "the disk is full"))
		out.Encode(StartMessage{Failed: &report})
		fallthrough
	case "dies":
		os.WriteFile(filepath.Join(o.Folder, "abandoned"), nil, 0o600)
		return 1
	}
	os.WriteFile(filepath.Join(o.Folder, "released"), nil, 0o600)
	io.Copy(io.Discard, in)
	return 0
}

func startConfig(t *testing.T, name string) StartConfig {
	return StartConfig{Folder: t.TempDir(), Workspace: store.Workspace{ID: "ws-1", Name: name}}
}

func has(o StartConfig, name string) bool {
	_, err := os.Lstat(filepath.Join(o.Folder, name))
	return err == nil
}

func TestReleaseSupervisor(t *testing.T) {
	o, reports := startConfig(t, "reports"), 0
	s, err := Start(t.Context(), os.Args[0], o, func(progress.Event) { reports++ })
	check(t, err)
	if has(o, "released") || reports != 1 {
		t.Errorf("it continued without an acknowledgement, or got %d reports, want 1", reports)
	}
	check(t, s.Release())
	testenv.Eventually(t, "it continues", func() bool { return has(o, "released") })
	testenv.Eventually(t, "no zombie is left", func() bool { return !alive(s.cmd.Process.Pid) })
}

// TestReleaseWaitsForResume checks that Release waits until the machine runs. If the machine can't
// run, it checks that the supervisor has ended.
func TestReleaseWaitsForResume(t *testing.T) {
	for memory, want := range map[string]fault.Kind{"goes on": "", "can't go on": fault.Exhausted, "dies": fault.Unavailable} {
		o := startConfig(t, "is ready")
		o.Workspace.Disks.Checkpoint = memory
		s, err := Start(t.Context(), os.Args[0], o, nil)
		check(t, err)
		err = s.Release()
		if err == nil && want != "" || err != nil && (fault.KindOf(err) != want || !has(o, "abandoned") || alive(s.cmd.Process.Pid)) {
			t.Errorf("%s: %v", memory, err)
		}
		testenv.Eventually(t, "no zombie is left", func() bool { return !alive(s.cmd.Process.Pid) })
	}
}

// alive reports whether a process exists, even if only as a zombie.
func alive(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

func TestAbandonSupervisor(t *testing.T) {
	o := startConfig(t, "is ready")
	s, err := Start(t.Context(), os.Args[0], o, nil)
	check(t, err)
	s.Abandon()
	if !has(o, "abandoned") || has(o, "released") || alive(s.cmd.Process.Pid) {
		t.Error("it did not end")
	}
}

func TestFailedStarts(t *testing.T) {
	for name, want := range map[string]struct {
		kind fault.Kind
		hint string
		text string
	}{
		"fails":             {fault.Exhausted, "pyro env prune", "disk is full"},
		"dies":              {fault.Unavailable, "see the file log in its folder", "ended before"},
		"talks nonsense":    {fault.Internal, "", "sent an invalid message"},
		"talks without end": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := startConfig(t, name)
			began := time.Now()
			s, err := Start(t.Context(), os.Args[0], o, nil)
			if err == nil || s != nil {
				t.Fatal("it started")
			}
			if took := time.Since(began); took > testenv.Patience {
				t.Errorf("it took %v", took)
			}
			if want.kind != "" && fault.KindOf(err) != want.kind || fault.HintOf(err) != want.hint && want.kind != "" || !strings.Contains(err.Error(), want.text) || !strings.Contains(err.Error(), "ws-1") {
				t.Errorf("%s, hint %q: %v", fault.KindOf(err), fault.HintOf(err), err)
			}
			if b, _ := os.ReadFile(filepath.Join(o.Folder, "log")); name == "dies" && string(b) != "last words\n" {
				t.Errorf("its log: %q", b)
			}
		})
	}
	if _, err := Start(t.Context(), "/nonexistent/pyro", startConfig(t, "is ready"), nil); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("no program: %v", err)
	}
	o := startConfig(t, "is ready")
	unread := filepath.Join(o.Folder, "unread") // this program ends before it reads its input
	text, err := os.ReadFile("/bin/true")
	check(t, err)
	check(t, os.WriteFile(unread, text, 0o700))
	o.Workspace.Labels = map[string]string{"long": strings.Repeat("x", 1<<20)} // more than fits in a pipe
	if _, err := Start(t.Context(), unread, o, nil); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "ended before") {
		t.Errorf("one that ends at once: %s: %v", fault.KindOf(err), err)
	}
	o.Folder += "/none"
	if _, err := Start(t.Context(), os.Args[0], o, nil); err == nil {
		t.Error("it started without a folder")
	}
}

func TestCancelledStart(t *testing.T) {
	o, enough := startConfig(t, "is silent"), errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, enough)
	defer cancel()
	began := time.Now()
	if s, err := Start(ctx, os.Args[0], o, nil); !errors.Is(err, enough) || s != nil {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > testenv.Patience {
		t.Errorf("it took %v", took)
	}
	if has(o, "released") {
		t.Error("it continued without an acknowledgement")
	}
}
