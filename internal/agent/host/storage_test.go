package host

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestWorkspacePaths(t *testing.T) {
	with, err := newExecEnv("/v")
	if err != nil {
		t.Fatal(err)
	}
	defer with.end()
	without, err := newExecEnv("")
	if err != nil {
		t.Fatal(err)
	}
	defer without.end()
	for name, want := range map[string]string{
		"": "", "/": "/", "/workspace": "/v/files", "/workspace/": "/v/files/", "/workspace/a/b": "/v/files/a/b", "/workspaces": "/workspaces", "/work": "/work",
		"/home/workspace": "/home/workspace", "workspace": "workspace",
	} {
		if got := with.Path(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
		if got := without.Path(name); got != name {
			t.Errorf("%q without a volume: %q", name, got)
		}
	}
	if env := with.Env(); len(env) != 1 || env[0] != "PYRO_WORKSPACE=/v/files" || without.Env() != nil {
		t.Errorf("%q, %q", env, without.Env())
	}
}

func TestMountOnHost(t *testing.T) {
	dir := t.TempDir()
	p, err := newExecEnv(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	if _, err := p.Volume(); !errors.Is(err, agent.ErrNoVolume) {
		t.Errorf("%v", err)
	}
	if _, err := p.Mount(true, false); err != nil {
		t.Errorf("its root: %v", err)
	}
	for range 2 {
		if _, err := p.Mount(true, true); err != nil {
			t.Fatal(err)
		}
	}
	v, err := p.Volume()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for name, folder := range map[string]string{"no folder": "", "a folder that is not there": filepath.Join(dir, "none")} {
		p, err := newExecEnv(folder)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Mount(false, true); err == nil || errors.Is(err, agent.ErrNoVolume) != (folder == "") {
			t.Errorf("%s: %v", name, err)
		}
		p.end()
	}
}

// TestQuiesceSparesOtherProcesses checks that Quiesce fails and kills nothing if the agent's parent
// is not its reaper. In this case, the agent can't tell which processes are its own.
func TestQuiesceSparesOtherProcesses(t *testing.T) {
	p, err := newExecEnv("")
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	if err := p.Quiesce(ctx); err == nil || !strings.Contains(err.Error(), "reaper") {
		t.Errorf("%v", err)
	}
	if err := p.Do(func() error { return nil }); !errors.Is(err, agent.ErrQuiesced) {
		t.Errorf("%v", err)
	}
	if _, err := p.Root(); !errors.Is(err, agent.ErrNotReady) {
		t.Errorf("%v", err)
	}
}
