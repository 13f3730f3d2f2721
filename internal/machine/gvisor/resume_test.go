package gvisor

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestResumeMismatch checks that the error has kind Precondition and names the difference.
func TestResumeMismatch(t *testing.T) {
	was := description{Helper: "h", Agent: "a", Images: "i", Shape: savedShape{Root: "sha256:r", VCPUs: 1, MemMiB: 256}}
	if err := was.fits(was); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*description){
		"environment":  func(d *description) { d.Shape.Root = "sha256:s" },
		"processors":   func(d *description) { d.Shape.VCPUs = 2 },
		"memory":       func(d *description) { d.Shape.MemMiB = 512 },
		"network":      func(d *description) { d.Shape.Network = true },
		"storage":      func(d *description) { d.Shape.Storage = true },
		HelperName:     func(d *description) { d.Helper = "j" },
		"pyro differs": func(d *description) { d.Agent = "b" },
		"now a k":      func(d *description) { d.Images = "k" },
	} {
		now := was
		change(&now)
		if err := was.fits(now); fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
