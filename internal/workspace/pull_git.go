package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/archive"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// fetchCommits fetches the commits of the repository in /workspace into the repository of a folder,
// as the branch pyro/ID. It returns the branch, or "" if the repository of the folder already has
// the commit. The branch follows the workspace, even if the workspace has rewritten its commits.
// But fetchCommits never discards a commit that the workspace does not have.
//
// The repository in the workspace is hostile. Only its objects and references are copied, into a
// new repository with its own configuration. git checks the objects when it fetches them.
func (m *Manager) fetchCommits(ctx context.Context, from *reader, id, folder string) (string, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return "", fault.Newf(fault.Precondition, "git is not installed on this host").WithHint("apt-get install git")
	}
	copied, err := os.MkdirTemp("", "pyro-commits-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(copied)
	if err := copyRepository(ctx, from, filepath.Join(copied, "repository")); err != nil {
		return "", err
	}
	repository := filepath.Join(copied, "repository", ".git")
	if _, err := runGit(ctx, copied, "", "init", "--quiet", "--bare", "--template=", repository); err != nil { // adds the missing files
		return "", err
	}
	head, err := runGit(ctx, copied, repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		return "", fault.Newf(fault.Precondition, "its repository has no commit")
	}
	branch := "pyro/" + id
	switch tip, err := runGit(ctx, folder, "", "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); {
	case err != nil: // there is no such branch yet
		if _, err := runGit(ctx, folder, "", "cat-file", "-e", head+"^{commit}"); err == nil {
			return "", nil
		}
	case tip == head:
		return "", nil
	default:
		if _, err := runGit(ctx, copied, repository, "cat-file", "-e", tip+"^{commit}"); err != nil {
			return "", foreignCommits(folder, branch)
		}
	}
	if _, err = runGit(ctx, folder, "", "fetch", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", repository, "+HEAD:refs/heads/"+branch); err != nil {
		return "", err
	}
	return branch, nil
}

// foreignCommits is the error for a branch that has commits of the user, or commits that the
// workspace has lost.
func foreignCommits(folder, branch string) error {
	command := func(args ...string) string {
		return fault.CommandLine(append([]string{"git", "-C", folder, "branch"}, args...))
	}
	return fault.Newf(fault.Precondition, "the branch %s has commits that the workspace does not have", branch).
		WithHint("%s keeps them, %s discards them", command("-m", branch, branch+"-mine"), command("-D", branch))
}

// copyRepository copies the objects and references of the repository in /workspace.
func copyRepository(ctx context.Context, from *reader, to string) error {
	r, w := io.Pipe()
	filtered, out := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { w.CloseWithError(from.tree(ctx, ".git", w)) }()
	done := make(chan error, 1)
	go func() {
		err := repositoryOnly(tar.NewWriter(out), tar.NewReader(r))
		r.CloseWithError(errExportEnded)
		out.CloseWithError(err)
		done <- err
	}()
	_, err := archive.Extract(ctx, filtered, to, archive.Options{})
	filtered.CloseWithError(errExportEnded)
	if failed := <-done; failed != nil && !errors.Is(failed, errExportEnded) {
		err = failed
	}
	if fault.KindOf(err) == fault.NotFound {
		return fault.Newf(fault.Precondition, "/workspace has no git repository")
	}
	return err
}

// repositoryOnly copies the objects and references of a repository. It omits everything that can
// make git read other files or run programs: configurations, hooks, alternates and links. The
// copied tree begins with a directory that contains .git.
func repositoryOnly(to *tar.Writer, from *tar.Reader) error {
	if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "repository/", Mode: 0o700}); err != nil {
		return err
	}
	for first := true; ; first = false {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return to.Close()
		}
		if err != nil {
			return err
		}
		if first && h.Typeflag != tar.TypeDir {
			return fault.Newf(fault.Precondition, "/workspace/.git is not a folder; worktrees and submodules have their commits elsewhere")
		}
		name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), ".git"), "/")
		if h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeReg || !partOfRepository(name) {
			continue
		}
		h = &tar.Header{Typeflag: h.Typeflag, Name: "repository/.git" + name, Size: h.Size, Mode: 0o700, ModTime: h.ModTime, Format: tar.FormatPAX}
		if h.Typeflag == tar.TypeDir {
			h.Name, h.Size = h.Name+"/", 0
		}
		if err := to.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(to, from); err != nil {
			return err
		}
	}
}

// partOfRepository reports whether a path below .git, with a slash at the start, is copied.
func partOfRepository(name string) bool {
	switch name {
	case "", "/HEAD", "/packed-refs", "/refs", "/objects":
		return true
	case "/objects/info", "/shallow":
		return name == "/shallow"
	}
	return strings.HasPrefix(name, "/refs/") || strings.HasPrefix(name, "/objects/") && !strings.HasPrefix(name, "/objects/info/")
}

// gitTimeout is the maximum duration of a call of git.
const gitTimeout = 10 * time.Minute

// runGit runs git in a folder, and returns its output. Unless repository is empty, it is used in
// place of the repository of the folder. git runs no hooks and does not use the network.
func runGit(ctx context.Context, folder, repository string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	var options []string
	for _, setting := range []string{"core.hooksPath=/dev/null", "core.fsmonitor=false", "transfer.fsckObjects=true", "protocol.file.allow=always", "maintenance.auto=false"} {
		options = append(options, "-c", setting)
	}
	if repository != "" {
		options = append(options, "--git-dir="+repository)
	}
	cmd := exec.CommandContext(ctx, "git", append(options, args...)...)
	cmd.Dir, cmd.WaitDelay = folder, time.Second
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := stderr.String()
		return "", fault.Newf(fault.Precondition, "git %s: %w: %s", args[0], err, strings.TrimSpace(text[:min(len(text), 2000)]))
	}
	return strings.TrimSpace(string(out)), nil
}
