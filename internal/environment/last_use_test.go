package environment

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLastUse(t *testing.T) {
	s := testStore(t.TempDir())
	pulled := must[Environment](t)(s.Pull(t.Context(), "debian:12", false, nil))
	lastUse := func() time.Time {
		env := must[Environment](t)(s.Inspect(t.Context(), "debian:12"))
		for _, listed := range must[[]Environment](t)(s.List(t.Context())) {
			if listed.Name == env.Name && !listed.LastUsedAt.Equal(env.LastUsedAt) {
				t.Errorf("the list says %v, inspect says %v", listed.LastUsedAt, env.LastUsedAt)
			}
		}
		return env.LastUsedAt
	}
	find := func() { must[*ImageRef](t)(s.Find(t.Context(), "debian:12", nil)).Close() }
	find()
	if at := lastUse(); !at.IsZero() {
		t.Errorf("neither a pull nor a check is a use: %v", at)
	}
	path := filepath.Join(s.contentDir(pulled.Digest), usedFile)
	for name, use := range map[string]func() (*ImageRef, error){
		"Use":       func() (*ImageRef, error) { return s.Use(t.Context(), "debian:12", nil) },
		"UseDigest": func() (*ImageRef, error) { return s.UseDigest(t.Context(), pulled.Digest, "debian:12", nil) },
	} {
		must[*ImageRef](t)(use()).Close()
		if since := time.Since(lastUse()); since < -time.Second || since > time.Minute {
			t.Errorf("%s: the last use was %v ago", name, since)
		}
		hourAgo := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, hourAgo, hourAgo); err != nil {
			t.Fatal(err)
		}
		find()
		if since := time.Since(lastUse()); since < time.Hour-time.Minute {
			t.Errorf("after a check, the last use was %v ago", since)
		}
	}
	if n := builds(filepath.Dir(s.root)); n > 1 {
		t.Errorf("%d builds", n)
	}
}

func TestUseWithReadOnlyCache(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can write to every folder")
	}
	s := testStore(t.TempDir())
	pulled := must[Environment](t)(s.Pull(t.Context(), "debian:12", false, nil))
	dir := s.contentDir(pulled.Digest)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	must[*ImageRef](t)(s.Use(t.Context(), "debian:12", nil)).Close()
	if env := must[Environment](t)(s.Inspect(t.Context(), "debian:12")); !env.LastUsedAt.IsZero() {
		t.Errorf("last use %v", env.LastUsedAt)
	}
}
