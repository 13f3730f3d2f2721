package project

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/ignore"
)

// Ignored decides which files of a directory git ignores. As in git, tracked files are never
// ignored. Nested checkouts have their own rules. The zero value ignores nothing.
type Ignored struct {
	folder    string
	checkouts map[string]matcher // rules by the path of the checkout's root; "" is the checkout that contains the directory itself
}

// matcher decides which paths of one checkout are ignored. Paths are relative to the root of the
// checkout, or to the directory of Ignored if this directory is inside the checkout.
type matcher interface {
	ignored(name string, folder bool) bool
}

// IgnoredIn returns the rules for a directory. Rules of parent directories do not apply if the
// directory is outside of any checkout, or if git ignores the directory itself.
func IgnoredIn(ctx context.Context, folder string) *Ignored {
	i := &Ignored{folder: folder, checkouts: map[string]matcher{}}
	if top, err := Find(resolveLinks(folder)); err == nil && top != "" {
		i.checkouts[""] = matcherFor(ctx, top, resolveLinks(folder))
	}
	return i
}

// Has reports whether a path in the directory is ignored. Call Has for a directory before you call
// it for the contents of the directory.
func (i *Ignored) Has(ctx context.Context, name string, folder bool) bool {
	if i.checkouts == nil || name == ".git" || strings.HasSuffix(name, "/.git") {
		return false
	}
	top, of := i.checkoutOf(name)
	if of != nil && of.ignored(strings.TrimPrefix(name[len(top):], "/"), folder) {
		return true
	}
	if at := filepath.Join(i.folder, name); folder && isCheckout(at) {
		i.checkouts[name] = matcherFor(ctx, at, at)
	}
	return false
}

// checkoutOf returns the innermost checkout that contains a path.
func (i *Ignored) checkoutOf(name string) (top string, of matcher) {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if of, ok := i.checkouts[at]; ok {
			return at, of
		}
	}
	return "", i.checkouts[""]
}

// matcherFor asks git about a directory of a checkout. If git fails or is not installed, matcherFor
// reads the rules itself.
func matcherFor(ctx context.Context, top, folder string) matcher {
	if all, err := askGit(ctx, top, folder); err == nil {
		return all
	}
	return readRules(top, folder)
}

// byGit is a set of ignored paths from git. The paths of directories end with a slash.
type byGit map[string]bool

func (b byGit) ignored(name string, folder bool) bool {
	return b[name] || folder && b[name+"/"]
}

// Limits for running git.
const (
	gitTimeout = 30 * time.Second
	gitOutput  = 64 << 20 // bytes
)

// askGit returns the paths that git ignores in a directory. It returns an empty set if git ignores
// the directory itself.
func askGit(ctx context.Context, top, folder string) (byGit, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	all, err := runGit(ctx, top, folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil || !all["./"] {
		return all, err
	}
	// git ignores either the directory itself or only all of its contents.
	if _, err := runGit(ctx, top, folder, "check-ignore", "-q", folder); err == nil {
		return byGit{}, nil
	}
	return runGit(ctx, top, folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
}

// runGit runs git and returns the paths in its output. It prevents git from using the network and
// from running programs that the checkout's configuration names. Git also does not search above the
// checkout.
func runGit(ctx context.Context, top, folder string, args ...string) (byGit, error) {
	git := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"}, args...)...)
	git.Dir = folder
	git.Env = gitEnv(filepath.Dir(top))
	git.WaitDelay = time.Second
	out := &limitedBuffer{limit: gitOutput}
	git.Stdout = out
	if err := git.Run(); err != nil {
		return nil, err
	}
	all := byGit{}
	for name := range bytes.SplitSeq(out.text, []byte{0}) {
		if len(name) > 0 {
			all[string(name)] = true
		}
	}
	return all, nil
}

// limitedBuffer is a buffer with a maximum size.
type limitedBuffer struct {
	text  []byte
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.limit {
		return 0, errors.New("git lists too many files")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// byRules evaluates the rules of a checkout without git.
type byRules struct {
	tree    *ignore.Tree
	below   string // path of the directory, relative to the root of the checkout
	tracked map[string]bool
}

// readRules reads the rules that apply to a directory: the .gitignore files, info/exclude, and the
// user's global file at its default path. If the directory itself is ignored, no rules apply.
func readRules(top, folder string) matcher {
	below, err := filepath.Rel(top, folder)
	if err != nil {
		return byGit{}
	}
	dir := gitDir(top)
	common := dir
	if named := strings.TrimSpace(read(filepath.Join(dir, "commondir"), 8<<10)); named != "" {
		common = within(dir, named)
	}
	b := &byRules{tree: &ignore.Tree{Read: func(at string) ([]byte, error) {
		return regular(filepath.Join(top, at, ignore.File)), nil
	}}, tracked: tracked(filepath.Join(dir, "index"))}
	for _, file := range []string{userRules(), filepath.Join(common, "info", "exclude")} {
		b.tree.Outer = append(b.tree.Outer, ignore.Parse([]byte(read(file, ignore.MaxFile))))
	}
	if below != "." {
		if b.below = below; b.has(below, true) {
			return byGit{}
		}
	}
	return b
}

func (b *byRules) ignored(name string, folder bool) bool {
	return b.has(path.Join(b.below, name), folder)
}

func (b *byRules) has(name string, folder bool) bool {
	if b.tracked[name] {
		return false
	}
	ignored, err := b.tree.Ignored(name, folder)
	return ignored && err == nil
}

// userRules returns the default path of git's global rules for a user.
func userRules() string {
	if config := os.Getenv("XDG_CONFIG_HOME"); config != "" {
		return filepath.Join(config, "git", "ignore")
	}
	return filepath.Join(os.Getenv("HOME"), ".config", "git", "ignore")
}

// regular reads a file of rules, unless the file is a symbolic link.
func regular(file string) []byte {
	if info, err := os.Lstat(file); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	return []byte(read(file, ignore.MaxFile+1))
}

// isCheckout reports whether a directory is the root of a checkout.
func isCheckout(folder string) bool {
	info, err := os.Lstat(filepath.Join(folder, ".git"))
	return err == nil && (info.IsDir() || info.Mode().IsRegular())
}

// maxIndex is how much of an index is read, in bytes.
const maxIndex = 256 << 20

// tracked returns the paths in an index and their parent directories. It returns nil if the index
// is unreadable.
func tracked(index string) map[string]bool {
	f, err := os.OpenFile(index, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return nil
	}
	all := map[string]bool{}
	for _, name := range indexPaths(text) {
		for at := name; at != "." && !all[at]; at = path.Dir(at) {
			all[at] = true
		}
	}
	return all
}
