package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Repository is the git repository of a checkout whose .git leads out of its folder. Worktrees,
// submodules and clones with alternates have such a .git. Files makes a self-contained .git.
type Repository struct {
	link    string   // if not empty: the copy's .git is only a file that contains this relative path.
	dir     string   // contains HEAD and the index of the checkout.
	common  string   // contains references and the configuration; often dir itself.
	objects []string // the folders of its objects; the alternates come last
	config  []byte   // for the copy
}

// Limits for the search of alternates, as in git.
const (
	maxAlternateDepth = 5
	maxAlternates     = 100
)

// ExternalRepository returns the repository of a checkout if its .git leads out of the folder top.
// The checkout is top or below it, and only top is copied. ExternalRepository returns nil if the
// .git can be copied as it is.
//
// The files of a checkout can come from a machine. So a repository outside of top must name the
// checkout as its own. A repository in top must have its objects there too. Otherwise, and if the
// repository can't be copied, ExternalRepository returns an error that says how to help.
func ExternalRepository(ctx context.Context, top, checkout string) (*Repository, error) {
	r, err := externalRepository(ctx, resolveLinks(top), resolveLinks(checkout))
	if err == nil && r != nil && r.link == "" {
		r.config, err = r.newConfig(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("git can't work in a copy of %q: %w", checkout, err)
	}
	return r, nil
}

func externalRepository(ctx context.Context, top, checkout string) (*Repository, error) {
	at := filepath.Join(checkout, ".git")
	info, err := os.Lstat(at)
	switch {
	case err != nil:
		return nil, nil
	case info.IsDir():
		return ofFolder(top, checkout, at)
	case info.Mode().IsRegular():
		return ofFile(ctx, top, checkout, at)
	case info.Mode()&fs.ModeSymlink != 0 && !inside(top, resolveLinks(at)):
		return nil, fmt.Errorf("its .git is a symbolic link that leads out of the folder. Copy a clone instead: git clone %q NEW", checkout)
	}
	return nil, nil
}

// ofFolder returns the repository of a checkout with a folder .git. It returns nil if all objects
// are in the folder top and git can find them in a copy.
func ofFolder(top, checkout, at string) (*Repository, error) {
	for _, name := range []string{"objects", "refs", "HEAD", "config"} {
		if part := filepath.Join(at, name); !inside(top, resolveLinks(part)) {
			return nil, fmt.Errorf("%q is a symbolic link that leads out of the folder. Copy a clone instead: git clone %q NEW", part, checkout)
		}
	}
	objects, absolute, err := objectFolders(filepath.Join(at, "objects"))
	out := func(folder string) bool { return !inside(top, folder) }
	if err == nil && !absolute && !slices.ContainsFunc(objects, out) {
		return nil, nil
	}
	if err == nil && checkout != top {
		err = errors.New("it is below the copied folder, and objects/info/alternates leads to objects elsewhere")
	}
	if err != nil {
		return nil, fmt.Errorf("%w. Copy the missing objects into it: git -C %q repack -a -d && rm %q", err, checkout, filepath.Join(at, alternates))
	}
	return &Repository{dir: at, common: at, objects: objects}, nil
}

// ofFile returns the repository that a file .git names. It is nil if the path is relative and stays
// in the folder.
func ofFile(ctx context.Context, top, checkout, at string) (*Repository, error) {
	named, ok := strings.CutPrefix(strings.TrimSpace(read(at, 8<<10)), "gitdir: ")
	if !ok {
		return nil, nil
	}
	dir := resolveLinks(within(checkout, named))
	if info, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil || info.IsDir() {
		return nil, fmt.Errorf("its repository %q does not exist on this host. Copy a clone instead", dir)
	}
	if inside(top, dir) && isFolder(filepath.Join(top, ".git")) {
		if r, err := externalRepository(ctx, top, top); r == nil && err == nil {
			if !filepath.IsAbs(named) {
				return nil, nil
			}
			relative, err := filepath.Rel(checkout, dir)
			return &Repository{link: relative}, err
		}
	}
	r := &Repository{dir: dir, common: dir}
	named = strings.TrimSpace(read(filepath.Join(dir, "commondir"), 8<<10))
	if named != "" {
		r.common = resolveLinks(within(dir, named))
	}
	if !r.names(ctx, checkout) {
		return nil, fmt.Errorf("its repository %q does not name it as its checkout. Run git -C %q worktree repair, or copy a clone instead", dir, checkout)
	}
	if r.dir != r.common && isFolder(filepath.Join(r.common, "reftable")) {
		return nil, errors.New("it is a worktree with references in the format reftable. Copy a clone instead")
	}
	var err error
	r.objects, _, err = objectFolders(filepath.Join(r.common, "objects"))
	if err == nil && inside(top, dir) && slices.ContainsFunc(r.objects, func(folder string) bool { return !inside(top, folder) }) {
		return nil, errors.New("its repository is in the copied folder, and its objects are outside. Copy a clone instead")
	}
	return r, err
}

// names reports whether the repository names a checkout as its own.
func (r *Repository) names(ctx context.Context, checkout string) bool {
	named := ""
	if r.dir != r.common { // a worktree
		if filepath.Dir(r.dir) != filepath.Join(r.common, "worktrees") {
			return false
		}
		named = filepath.Dir(within(r.dir, strings.TrimSpace(read(filepath.Join(r.dir, "gitdir"), 8<<10))))
	} else { // a submodule
		for _, s := range settings(ctx, filepath.Join(r.dir, "config")) {
			if s.section == "core" && s.name == "worktree" {
				named = within(r.dir, s.value)
			}
		}
	}
	return named != "" && resolveLinks(named) == checkout
}

const alternates = "objects/info/alternates"

// objectFolders returns a folder of objects and all its alternates. absolute reports whether an
// alternate has an absolute path, which is wrong in a copy. objectFolders fails if a folder is
// missing, because objects are missing then.
func objectFolders(first string) (all []string, absolute bool, err error) {
	var add func(folder string, depth int) error
	add = func(folder string, depth int) error {
		folder = resolveLinks(folder)
		if slices.Contains(all, folder) {
			return nil
		}
		if !isFolder(folder) {
			return fmt.Errorf("its folder of objects %q does not exist on this host", folder)
		}
		if depth > maxAlternateDepth || len(all) == maxAlternates {
			return errors.New("it has too many alternates")
		}
		all = append(all, folder)
		for line := range strings.Lines(read(filepath.Join(folder, "info", "alternates"), 64<<10)) {
			line = strings.TrimSuffix(line, "\n")
			if quoted, err := strconv.Unquote(line); err == nil {
				line = quoted
			}
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			absolute = absolute || filepath.IsAbs(line)
			if err := add(within(folder, line), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	err = add(first, 0)
	return all, absolute, err
}

// inside reports whether a path is in a folder. Both are absolute and without symbolic links.
func inside(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// setting is a setting of a git configuration, for example branch.NAME.merge.
type setting struct{ section, subsection, name, value string }

// settings reads a configuration file with git. It returns none if git fails or is not installed.
// git does not follow the file's includes.
func settings(ctx context.Context, file string) (all []setting) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	git := exec.CommandContext(ctx, "git", "config", "--file", file, "--no-includes", "--list", "-z")
	git.Env = gitEnv(filepath.Dir(file))
	git.WaitDelay = time.Second
	out := &limitedBuffer{limit: 4 << 20}
	git.Stdout = out
	if git.Run() != nil {
		return nil
	}
	for _, line := range strings.Split(string(out.text), "\x00") {
		key, value, assigned := strings.Cut(line, "\n")
		section, rest, ok := strings.Cut(key, ".")
		if !ok {
			continue
		}
		if !assigned {
			value = "true"
		}
		s := setting{section: section, name: rest, value: value}
		if i := strings.LastIndexByte(rest, '.'); i >= 0 {
			s.subsection, s.name = rest[:i], rest[i+1:]
		}
		all = append(all, s)
	}
	return all
}
