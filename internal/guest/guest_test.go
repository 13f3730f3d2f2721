package guest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestReadsNamedBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pyro-guest")
	content := []byte("a program")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYRO_GUEST", path)
	p, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	holds(t, p, content)

	t.Setenv("PYRO_GUEST", path+".missing")
	if _, err := Find(); fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) == "" {
		t.Errorf("a missing program: %v", err)
	}
}

// TestPacked checks that the embedded program, if there is one, has the embedded digest.
func TestPacked(t *testing.T) {
	t.Setenv("PYRO_GUEST", "")
	p, err := Find()
	if err != nil || p.packed == "" {
		testenv.Lacks(t, "a guest agent in this build: run make guest")
	}
	content, err := p.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	holds(t, p, content)
}

func holds(t *testing.T, p *Program, content []byte) {
	t.Helper()
	sum := sha256.Sum256(content)
	if p.Digest() != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s", p.Digest())
	}
	folder := filepath.Join(t.TempDir(), "agent")
	for range 2 {
		path, err := p.Install(folder)
		if err != nil {
			t.Fatal(err)
		}
		if installed, _ := os.ReadFile(path); !bytes.Equal(installed, content) {
			t.Error("the installed file differs from the program")
		}
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Errorf("%d leftover files", len(left))
	}
}
