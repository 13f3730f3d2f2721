package template

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func fillFolder(_ context.Context, dir string) error {
	return errors.Join(os.MkdirAll(filepath.Join(dir, "root/etc"), 0o755), os.WriteFile(filepath.Join(dir, "root/etc/name"), []byte("x"), 0o644))
}

func TestFoldersAreVerified(t *testing.T) {
	for name, damage := range map[string]func(folder string) error{
		"content":  func(folder string) error { return os.WriteFile(folder+"/etc/name", []byte("y"), 0) },
		"new file": func(folder string) error { return os.WriteFile(folder+"/etc/other", nil, 0o600) },
		"mode":     func(folder string) error { return os.Chmod(folder+"/etc/name", 0o755) },
		"missing":  func(folder string) error { return os.RemoveAll(folder) },
	} {
		s, key := Store{t.TempDir()}, Key{Root: "folder"}
		for range 2 {
			made, err := s.Build(t.Context(), key, nil, fillFolder)
			if err != nil {
				t.Fatal(err)
			}
			made.Close()
			opened, err := s.Open(key)
			if err != nil {
				t.Fatal(err)
			}
			opened.Close()
			if err := damage(opened.Path("root")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Open(key); fault.KindOf(err) != fault.Corrupt {
				t.Errorf("%s: %v", name, err)
			}
		}
		if infos, err := s.List(); err != nil || len(infos) != 1 {
			t.Errorf("%s: %v, %v", name, infos, err)
		}
	}
}
