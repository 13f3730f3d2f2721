package web

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestDist checks that dist is what "make web" builds from the sources.
func TestDist(t *testing.T) {
	built := t.TempDir()
	run(t, "tsc", "--noEmit")
	run(t, "vite", "build", "--outDir", built, "--emptyOutDir")
	want, got := read(t, os.DirFS(built)), read(t, os.DirFS("dist"))
	for name, content := range want {
		if !bytes.Equal(content, got[name]) {
			t.Errorf("%s is out of date: run make web", filepath.Join("dist", name))
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s is not built any more: run make web", filepath.Join("dist", name))
		}
	}
}

// run runs an installed program of package.json. It skips a test without node or npm.
func run(t *testing.T, program string, arguments ...string) {
	t.Helper()
	for _, needed := range []string{"node", "npm"} {
		if _, err := exec.LookPath(needed); err != nil {
			testenv.Lacks(t, needed)
		}
	}
	for _, c := range []*exec.Cmd{exec.CommandContext(t.Context(), "./install.sh"), exec.CommandContext(t.Context(), "node_modules/.bin/"+program, arguments...)} {
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
}

func read(t *testing.T, from fs.FS) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[name], err = fs.ReadFile(from, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
