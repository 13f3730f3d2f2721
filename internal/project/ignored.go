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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/ignore"
)

// Ignored decides which files of a folder git ignores. Files that are tracked are not ignored, as in
// git. Checkouts in the folder have their own rules. Its zero value ignores nothing.
type Ignored struct {
	folder    string
	checkouts map[string]judge // by the path of their top in the folder, "" for the folder itself
}

// judge decides on the paths of one checkout, which are relative to its top, or to the folder that
// is in it.
type judge interface {
	ignored(name string, folder bool) bool
}

// IgnoredIn gives what git ignores in a folder. In a folder that is in no checkout, or that git
// ignores as a whole, nothing is ignored by the rules from above.
func IgnoredIn(ctx context.Context, folder string) *Ignored {
	i := &Ignored{folder: folder, checkouts: map[string]judge{}}
	if top, err := Find(real(folder)); err == nil && top != "" {
		i.checkouts[""] = judgeOf(ctx, top, real(folder))
	}
	return i
}

// Has tells whether a path in the folder is ignored. Folders are to be asked about before what is in
// them.
func (i *Ignored) Has(ctx context.Context, name string, folder bool) bool {
	if i.checkouts == nil || name == ".git" || strings.HasSuffix(name, "/.git") {
		return false
	}
	top, of := i.checkoutOf(name)
	if of != nil && of.ignored(strings.TrimPrefix(name[len(top):], "/"), folder) {
		return true
	}
	if at := filepath.Join(i.folder, name); folder && isCheckout(at) {
		i.checkouts[name] = judgeOf(ctx, at, at)
	}
	return false
}

// checkoutOf gives the nearest checkout that a path is in.
func (i *Ignored) checkoutOf(name string) (top string, of judge) {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if of, ok := i.checkouts[at]; ok {
			return at, of
		}
	}
	return "", i.checkouts[""]
}

// judgeOf asks git about a folder of a checkout. If it is not installed, or does not want to, the
// rules are read here.
func judgeOf(ctx context.Context, top, folder string) judge {
	if all, err := askGit(ctx, top, folder); err == nil {
		return all
	}
	return readRules(top, folder)
}

// byGit are the ignored paths that git named; those of folders end with a slash.
type byGit map[string]bool

func (b byGit) ignored(name string, folder bool) bool {
	return b[name] || folder && b[name+"/"]
}

// What asking git may take.
const (
	gitTimeout = 30 * time.Second
	gitOutput  = 64 << 20 // bytes
)

// askGit gives what git ignores in a folder; nothing, if it ignores the folder itself.
func askGit(ctx context.Context, top, folder string) (byGit, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	all, err := runGit(ctx, top, folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil || !all["./"] {
		return all, err
	}
	// The folder is ignored, or it has nothing that is not.
	if _, err := runGit(ctx, top, folder, "check-ignore", "-q", folder); err == nil {
		return byGit{}, nil
	}
	return runGit(ctx, top, folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
}

// runGit gives the paths that git names. It runs nothing that the configuration of the checkout
// names, and fetches nothing. It looks for no checkout above the given one.
func runGit(ctx context.Context, top, folder string, args ...string) (byGit, error) {
	git := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"}, args...)...)
	git.Dir = folder
	git.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	git.Env = append(git.Env, "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0", "GIT_CEILING_DIRECTORIES="+filepath.Dir(top))
	git.WaitDelay = time.Second
	out := &bounded{limit: gitOutput}
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

// bounded is a buffer that takes no more than a limit.
type bounded struct {
	text  []byte
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.limit {
		return 0, errors.New("git names too many files")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// byRules are the rules of a checkout, read without git.
type byRules struct {
	tree    *ignore.Tree
	below   string // of the folder, from the top of the checkout
	tracked map[string]bool
}

// readRules reads the rules of a checkout for a folder in it: the .gitignore files, info/exclude, and
// the user's own in their default place. A folder that is ignored as a whole has none.
func readRules(top, folder string) judge {
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

// userRules is where git keeps the rules of a user, unless it is told another place.
func userRules() string {
	if config := os.Getenv("XDG_CONFIG_HOME"); config != "" {
		return filepath.Join(config, "git", "ignore")
	}
	return filepath.Join(os.Getenv("HOME"), ".config", "git", "ignore")
}

// regular reads a file that is no link, as far as rules go.
func regular(file string) []byte {
	if info, err := os.Lstat(file); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	return []byte(read(file, ignore.MaxFile+1))
}

// isCheckout tells whether a folder is the top of a checkout.
func isCheckout(folder string) bool {
	info, err := os.Lstat(filepath.Join(folder, ".git"))
	return err == nil && (info.IsDir() || info.Mode().IsRegular())
}

// maxIndex bounds the index of a checkout, in bytes.
const maxIndex = 256 << 20

// tracked gives the paths in an index, and the folders above them. What can't be read has none.
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
	for _, name := range indexed(text) {
		for at := name; at != "." && !all[at]; at = path.Dir(at) {
			all[at] = true
		}
	}
	return all
}
