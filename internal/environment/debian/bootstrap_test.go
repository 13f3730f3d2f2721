package debian

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestPhases(t *testing.T) {
	var got []progress.Event
	p := &phases{report: func(e progress.Event) { got = append(got, e) }, subject: "debian:12"}
	for _, part := range []string{"I: running apt-g", "et update...\nI: using /tmp/x as tempdir\n", "W: something\r\nE: it ", "failed\n", strings.Repeat("x", 5000)} {
		io.WriteString(p, part)
	}
	want := []progress.Event{{Phase: "fetching package lists", Subject: "debian:12"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.last() != "W: something; E: it failed" {
		t.Errorf("kept %q", p.last())
	}
	if len(p.rest) > maxLine {
		t.Errorf("an endless line takes %d bytes", len(p.rest))
	}
}

func TestExplain(t *testing.T) {
	failed := errors.New("exit status 1")
	for said, want := range map[string]fault.Kind{
		"E: Could not resolve 'deb.debian.org'":                                  fault.Unavailable,
		"dpkg: error: failed to write status: No space left on device":           fault.Exhausted,
		"unshare: unshare failed: Operation not permitted":                       fault.Unavailable,
		"E: setup failed: E: something new":                                      fault.Internal,
		"E: Unable to locate package linux-image-cloud-s390x":                    fault.Unavailable,
		"W: Failed to fetch http://x/InRelease  Temporary failure resolving 'x'": fault.Unavailable,
	} {
		if got := fault.KindOf(explain("run", failed, said)); got != want {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
	}
}

func TestContainedProgramLeavesNoProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.NeedsTool(t, "newuidmap")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		// Like a daemon, the child leaves its parent and its session.
		done <- asRoot(ctx, []string{"sh", "-c", "setsid sh -c 'echo started; while sleep 0.02; do date +%N > beat; done' & wait"}, func(cmd *exec.Cmd) {
			cmd.Dir, cmd.Stdout = dir, writer
		})
	}()
	if _, err := io.ReadFull(reader, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, reader)
	defer reader.Close()
	beat := filepath.Join(dir, "beat")
	testenv.Eventually(t, "the program runs", func() bool { b, _ := os.ReadFile(beat); return len(b) > 0 })
	cancel()
	if err := <-done; err == nil {
		t.Error("a killed program has succeeded")
	}
	last, _ := os.ReadFile(beat)
	time.Sleep(200 * time.Millisecond)
	if now, _ := os.ReadFile(beat); string(now) != string(last) {
		t.Error("a child lives on")
	}
}

func TestContainedProgramHasOwnMounts(t *testing.T) {
	dir := t.TempDir()
	err := asRoot(t.Context(), []string{"mount", "-t", "tmpfs", "none", dir}, func(*exec.Cmd) {})
	if err != nil {
		testenv.Lacks(t, "no mounts here: ", err)
	}
	if mounts, err := os.ReadFile("/proc/mounts"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("the mount is seen outside, %v", err)
	}
}

func TestMissingTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Bootstrap(t.Context(), nil, t.TempDir(), io.Discard, nil, "debian:12")
	if fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) != "sudo apt-get install mmdebstrap" {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
	if _, err := KernelPackage(t.Context(), t.TempDir(), nil); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
}
