package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// Files calls the function add for each file of a .git that needs nothing else, as described in
// package archive. These are HEAD, the index,
// references with their logs, operations in progress such as a merge, and then all objects. It has
// no hooks. Its configuration has only settings that git needs for the same results, and no
// credentials.
//
// Objects come last, so that they include all objects that the references name.
func (r *Repository) Files(ctx context.Context, add func(name, host string, text []byte) error) error {
	if r.link != "" {
		return add("", "", []byte("gitdir: "+r.link+"\n"))
	}
	if err := errors.Join(add("config", "", r.config), add("refs/", "", nil), add("objects/", "", nil)); err != nil {
		return err
	}
	seen := map[string]bool{}
	copied := func(from, below string, wanted func(name string) bool) error {
		return filesBelow(ctx, from, func(name string) error {
			at := path.Join(below, name)
			if seen[at] || strings.HasSuffix(name, ".lock") || !wanted(name) {
				return nil
			}
			seen[at] = true
			return add(at, filepath.Join(from, filepath.FromSlash(name)), nil)
		})
	}
	if err := copied(r.dir, "", ofCheckout); err != nil {
		return err
	}
	if err := copied(r.common, "", ofCommon); err != nil {
		return err
	}
	for _, from := range r.objects {
		if err := copied(from, "objects", isObject); err != nil {
			return err
		}
	}
	return nil
}

// ofCheckout reports whether a file of the repository of a checkout is copied. FETCH_HEAD is not,
// because it can contain credentials.
func ofCheckout(name string) bool {
	first, _, below := strings.Cut(name, "/")
	switch first {
	case "HEAD", "index", "packed-refs", "shallow", "AUTO_MERGE":
		return !below
	case "refs", "logs", "reftable", "rebase-merge", "rebase-apply", "sequencer":
		return below
	case "info":
		return slices.Contains([]string{"info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout"}, name)
	case "FETCH_HEAD":
		return false
	}
	for _, state := range []string{"MERGE_", "SQUASH_", "BISECT_", "sharedindex."} {
		if strings.HasPrefix(first, state) {
			return !below
		}
	}
	return !below && strings.HasSuffix(first, "_HEAD")
}

// ofCommon reports whether a file is copied that all worktrees of a repository share. The others
// belong to its main worktree.
func ofCommon(name string) bool {
	switch name {
	case "packed-refs", "shallow", "info/exclude", "info/attributes", "info/grafts":
		return true
	}
	for _, own := range []string{"refs/bisect/", "refs/worktree/", "refs/rewritten/"} {
		if strings.HasPrefix(strings.TrimPrefix(name, "logs/"), own) {
			return false
		}
	}
	return strings.HasPrefix(name, "refs/") || strings.HasPrefix(name, "logs/refs/")
}

// isObject reports whether a file of a folder of objects is copied: an object or a part of a pack.
func isObject(name string) bool {
	return !strings.HasPrefix(name, "info/") && !strings.HasPrefix(path.Base(name), "tmp_")
}

// filesBelow calls a function for each regular file below a folder, with its relative path. It
// ignores symbolic links.
func filesBelow(ctx context.Context, folder string, visit func(name string) error) error {
	return filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(folder, at)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(name))
	})
}

// kept lists the settings that a copied repository keeps. A star stands for all names.
var kept = map[string][]string{
	"core": {
		"repositoryformatversion", "filemode", "symlinks", "ignorecase", "autocrlf", "eol", "abbrev", "quotepath", "logallrefupdates",
		"sparsecheckout", "sparsecheckoutcone",
	},
	"extensions": {"objectformat", "compatobjectformat", "refstorage", "partialclone", "preciousobjects"},
	"branch":     {"remote", "merge", "rebase", "pushremote", "description"},
	"remote":     {"url", "pushurl", "fetch", "push", "mirror", "tagopt", "promisor", "partialclonefilter"},
	"submodule":  {"url", "active", "branch"},
	"user":       {"name", "email"},
	"status":     {"*"},
	"i18n":       {"*"},
	"index":      {"version", "sparse"},
}

// newConfig returns the configuration of the copied repository.
func (r *Repository) newConfig(ctx context.Context) ([]byte, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, errors.New("git is not installed on this host, and is needed to read the repository's settings: apt-get install git")
	}
	common := settings(ctx, filepath.Join(r.common, "config"))
	if len(common) == 0 {
		return nil, fmt.Errorf("git can't read %q", filepath.Join(r.common, "config"))
	}
	var text strings.Builder
	text.WriteString("[core]\n\tbare = false\n")
	for _, s := range append(common, r.ownSettings(ctx, common)...) {
		if !slices.Contains(kept[s.section], s.name) && !slices.Contains(kept[s.section], "*") {
			continue
		}
		if s.name == "url" || s.name == "pushurl" {
			if s.value = withoutPassword(s.value); s.value == "" {
				continue
			}
		}
		fmt.Fprintf(&text, "[%s", s.section)
		if s.subsection != "" {
			fmt.Fprintf(&text, ` "%s"`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.subsection))
		}
		fmt.Fprintf(&text, "]\n\t%s = \"%s\"\n", s.name, strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s.value))
	}
	return []byte(text.String()), nil
}

// ownSettings returns the settings of one worktree. They override the settings of the repository.
func (r *Repository) ownSettings(ctx context.Context, common []setting) []setting {
	for _, s := range common {
		if s.section == "extensions" && s.name == "worktreeconfig" {
			return settings(ctx, filepath.Join(r.dir, "config.worktree"))
		}
	}
	return nil
}

// withoutPassword removes the credentials from the URL of a remote. It returns "" if the URL names
// a program.
func withoutPassword(remote string) string {
	if helper().MatchString(remote) {
		return ""
	}
	if !strings.Contains(remote, "://") {
		return remote // a path, or USER@HOST:PATH of ssh
	}
	u, err := url.Parse(remote)
	if err != nil {
		return ""
	}
	if name := u.User.Username(); name != "" && strings.Contains(u.Scheme, "ssh") {
		u.User = url.User(name)
	} else {
		u.User = nil
	}
	return u.String()
}

// helper matches a URL that names a program, for example ext::COMMAND.
var helper = lazyregexp.New(`^[A-Za-z0-9+.-]+::`)

// gitEnv returns the environment of a git that uses no network, runs no programs of the checkout's
// configuration, and searches no repository above a folder.
func gitEnv(ceiling string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	return append(env, "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0", "GIT_CEILING_DIRECTORIES="+ceiling)
}
