//go:build machine

package gvisor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// TestCopiesOfSharedFilesSurviveKills kills the gofer or the sentry while programs write to shared
// files. Then each file is either the shared file or a copy with the whole content.
func TestCopiesOfSharedFilesSurviveKills(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	const files, size = 400, 128 << 10
	var names []string
	for i := range files {
		names = append(names, fmt.Sprint(i))
	}
	base, volume := shareAll(t, names)
	content := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	for _, name := range names { // the same inodes as in the volume
		if err := os.WriteFile(filepath.Join(base, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := describeAll(t, base)
	copied := 0
	for round := range 4 {
		s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: volume})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		// Each round begins with other files, so that each round copies some.
		line := fmt.Sprintf("cd %s; for i in $(seq %d 399) $(seq 0 399); do printf X | dd of=$i bs=1 seek=8 conv=notrunc status=none; done", workspace, round*60)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.agent.Exec(ctx, program.Command{Argv: []string{"sh", "-c", line}}, program.Attach{})
		}()
		first := filepath.Join(s.files, fmt.Sprint(round*60+20))
		for isShared(first) { // until some files are copied
			if ctx.Err() != nil {
				t.Fatal("no file is copied")
			}
			time.Sleep(time.Millisecond)
		}
		victim := s.sandbox().gofer.PID()
		if round%2 == 1 {
			victim = s.PID()
		}
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		cancel()
		<-ended
		copied = 0
		for _, name := range names {
			path := filepath.Join(s.files, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if isShared(path) {
				continue
			}
			copied++
			if len(b) != len(content) || !bytes.Equal(b[:8], content[:8]) || !bytes.Equal(b[9:], content[9:]) || b[8] != 'X' && b[8] != content[8] {
				t.Errorf("round %d: file %s is damaged", round, name)
			}
		}
	}
	t.Logf("%d of %d files are copied", copied, files)
	if after := describeAll(t, base); !slices.Equal(before, after) {
		t.Error("shared files changed")
	}
	s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: volume})
	s.shell(t, "true")
	if left, err := filepath.Glob(filepath.Join(volume, "staged-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %s, %v", strings.Join(left, " "), err)
	}
}

// isShared reports whether a file has the mark of shared files.
func isShared(path string) bool {
	_, err := unix.Lgetxattr(path, xattr.Shared, nil)
	return err == nil
}
