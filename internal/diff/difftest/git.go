package difftest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// NeedsGit fails a test that compares with git, if git is not installed.
func NeedsGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is not installed, and this test compares with it: run scripts/install.sh test")
	}
}

// Git runs git in a directory without any user configuration. It returns git's output.
func Git(dir, stdin string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+dir,
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t", "LC_ALL=C")
	cmd.Stdin = strings.NewReader(stdin)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return string(out), nil
}
