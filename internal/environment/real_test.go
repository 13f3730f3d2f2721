//go:build integration

package environment

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// TestRealDebian builds the smallest environment twice, and fetches the kernel from the host's
// mirrors. It needs network access and takes about a minute.
func TestRealDebian(t *testing.T) {
	t.Setenv(KernelVariable, "")
	s := Open(dirs.Dirs{Cache: filepath.Join(t.TempDir(), "pyro")})
	began := time.Now()
	report := func(e progress.Event) { t.Logf("%6.2f s  %s", time.Since(began).Seconds(), e.Phase) }
	first := must[Environment](t)(s.Pull(t.Context(), "debian:12-base", false, report))
	ref := must[*ImageRef](t)(s.Use(t.Context(), "debian:12-base", nil))
	defer ref.Close()
	if out, err := exec.Command("/usr/sbin/e2fsck", "-fn", ref.Image).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if again := must[Environment](t)(s.Pull(t.Context(), "debian:12-base", true, nil)); again.Digest != first.Digest {
		t.Error("two builds of a day differ, unless it was midnight in between")
	}
	k := must[Kernel](t)(s.Kernel(t.Context(), report))
	if info := must[kernelInfo](t)(s.kernelInfo(k.Digest)); len(info.Modules) == 0 {
		t.Errorf("%s has no modules", k.Release)
	}
	if left := leavings(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}
