package build

import (
	"context"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// runsOf returns the RUN instructions of a Dockerfile, after expansion, and a stage for them.
func runsOf(t *testing.T, b *builder) (*stage, []*instructions.RunCommand) {
	t.Helper()
	st := &stage{state: &state{}}
	var all []*instructions.RunCommand
	for _, c := range b.file.stages[0].Commands {
		run := c.(*instructions.RunCommand)
		if err := b.expand(st.state, run); err != nil {
			t.Fatal(err)
		}
		all = append(all, run)
	}
	return st, all
}

func TestMountOwners(t *testing.T) {
	b := testBuilder(t, `FROM scratch
RUN --mount=type=tmpfs,target=/t true
RUN --mount=type=cache,target=/c true
RUN --mount=type=cache,target=/c,uid=5,gid=6,mode=0700 true
`)
	st, runs := runsOf(t, b)
	for i, want := range []struct{ mode, uid, gid int }{{0o1777, 0, 0}, {0o755, 0, 0}, {0o700, 5, 6}} {
		mounts, err := b.mountsOf(t.Context(), st, runs[i])
		if err != nil || len(mounts) != 1 || mounts[0].folder == nil {
			t.Fatalf("%+v, %v", mounts, err)
		}
		if h := mounts[0].folder; int(h.Mode) != want.mode || h.Uid != want.uid || h.Gid != want.gid {
			t.Errorf("%d: mode %o, owner %d:%d", i, h.Mode, h.Uid, h.Gid)
		}
	}
}

// TestKeysOfRuns checks that the flags of a step count, and that a cached step is checked too.
func TestKeysOfRuns(t *testing.T) {
	const secretMount = "RUN --mount=type=secret,id=s"
	lines := []string{
		secretMount, secretMount + ",env=A", secretMount + ",env=B", secretMount + ",mode=0444", secretMount + ",uid=5", secretMount + ",gid=5",
		"RUN --mount=type=cache,target=/c", "RUN --mount=type=cache,target=/c,uid=5", "RUN --mount=type=cache,target=/c,mode=0700",
		"RUN --mount=type=bind,source=a,target=/a", "RUN --mount=type=bind,source=b,target=/a",
	}
	b := testBuilder(t, "FROM scratch\n"+strings.Join(lines, " true\n")+" true\n", "a", "A", "b", "B")
	source, root, err := openContext(b.Request.Context, "")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	b.context, b.Secrets = source, map[string]secret.Value{"s": secret.New("secret")}
	st, runs := runsOf(t, b)
	seen := map[string]string{}
	for i, run := range runs {
		mounts, err := b.mountsOf(t.Context(), st, run)
		if err != nil {
			t.Fatal(err)
		}
		key := st.state.after("run", mountKey(run, mounts))
		if seen[key] != "" {
			t.Errorf("%s has the key of %s", lines[i], seen[key])
		}
		seen[key] = lines[i]
	}
}

// TestCachedStepsAreChecked checks that a flag that pyro does not support is an error even if a
// step without the flag is cached.
func TestCachedStepsAreChecked(t *testing.T) {
	b := testBuilder(t, "FROM scratch\nRUN true\nRUN --network=none true\nRUN --security=insecure true\n")
	_, runs := runsOf(t, b)
	var err error
	if b.layers, err = b.manager.Environments.OpenLayers(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.layers.Close()
	for i, run := range runs {
		st := &stage{state: &state{}}
		if i == 0 {
			argv, text, err := commandOf(st.state, run)
			if err != nil {
				t.Fatal(err)
			}
			key := st.state.after("run", argv, text, st.state.scope(), "", "", mountKey(run, nil), false)
			if err := b.layers.KeepStep(key, ""); err != nil {
				t.Fatal(err)
			}
		}
		cached, err := b.runCached(context.WithoutCancel(t.Context()), st, run, &reporter{b: b})
		if i == 0 && (!cached || err != nil) || i > 0 && fault.KindOf(err) != fault.Unsupported {
			t.Errorf("%s: %v, %v", run, cached, err)
		}
	}
}
