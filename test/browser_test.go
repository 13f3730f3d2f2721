//go:build machine

// The name of this file makes its tests start first. They take longest, and would otherwise run
// alone at the end.

package test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// browse runs a script of web/e2e with Chromium.
func browse(t *testing.T, script string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	browser := exec.CommandContext(ctx, "node", append([]string{"../web/e2e/" + script}, arguments...)...)
	own := t.TempDir() // Chromium also writes to the home folder
	browser.Env = append(os.Environ(), "CHROMIUM="+chromium(t), "HOME="+own, "TMPDIR="+own, fmt.Sprint("PATIENCE_MS=", patience.Milliseconds()))
	// At SIGTERM, the script closes Chromium, which removes its files.
	browser.Cancel = func() error { return browser.Process.Signal(syscall.SIGTERM) }
	browser.WaitDelay = 30 * time.Second
	out, err := browser.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// chromium returns the path of Chromium, and skips a test without it. It prefers the program that
// cannot show windows, because that one needs a quarter less processor time.
func chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		path, err = exec.LookPath("chromium")
	}
	if err != nil {
		testenv.Lacks(t, err)
	}
	return path
}

// needsBrowser skips a test without Chromium or npm, and installs the packages of the scripts.
func needsBrowser(t *testing.T) {
	t.Helper()
	sameForAll(t)
	chromium(t)
	if _, err := exec.LookPath("npm"); err != nil {
		testenv.Lacks(t, err)
	}
	packages.Do(func() {
		if out, err := exec.CommandContext(t.Context(), "../web/install.sh").CombinedOutput(); err != nil {
			t.Errorf("install the packages of the page: %v\n%s", err, out)
		}
	})
}

var packages sync.Once

// loginLink returns the login link that the server prints when it starts.
func loginLink(server *running) string {
	link, _, _ := strings.Cut(strings.TrimPrefix(server.untilLine("log in at "), "log in at "), " ")
	return link
}

// TestServePage uses the page of "pyro serve" in a browser. web/e2e/page.mjs has the steps.
// PYRO_TEST_SCREENSHOTS is a folder for the screenshots, such as docs/images.
func TestServePage(t *testing.T) {
	needsBrowser(t)
	t.Parallel()
	a := serveAPI(t)
	browse(t, "page.mjs", a.address, loginLink(a.server), cmp.Or(os.Getenv("PYRO_TEST_SCREENSHOTS"), t.TempDir()), a.keyFile)
	a.stop()
}

// TestServePageLimits uses the page with long names, large lists and several terminals.
// web/e2e/limits.mjs has the steps.
func TestServePageLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs this test")
	}
	needsBrowser(t)
	t.Parallel()
	a := serveAPI(t)
	browse(t, "limits.mjs", a.address, loginLink(a.server), a.keyFile)
	a.stop()
}

// TestServeAttacks opens a preview in a browser. It then attacks the page from other sites, from
// the preview, and from a name that resolves to the server. web/e2e/attacks.mjs has the steps.
func TestServeAttacks(t *testing.T) {
	needsBrowser(t)
	t.Parallel()
	s := newSite(t)
	browse(t, "attacks.mjs", s.address, loginLink(s.server), s.keyFile, s.id)
	s.stop()
}
