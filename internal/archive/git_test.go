package archive

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestGitFolderIsReplaced replaces one of two entries named .git with other files, and checks the
// stream. It also checks the reason for each .git that can't be replaced.
func TestGitFolderIsReplaced(t *testing.T) {
	src, objects := t.TempDir(), t.TempDir()
	for _, folder := range []string{"tree", "below/.git"} {
		check(t, os.MkdirAll(filepath.Join(src, folder), 0o755))
	}
	for name, text := range map[string]string{".git": "gitdir: elsewhere", "a": "a", "below/.git/HEAD": "own", "tree/.git": "gitdir: /x"} {
		check(t, os.WriteFile(filepath.Join(src, name), []byte(text), 0o644))
	}
	check(t, os.WriteFile(filepath.Join(objects, "pack"), []byte("objects"), 0o444))
	policy := Policy{Git: func(_ context.Context, folder string) (GitFiles, string) {
		switch folder {
		case ".":
			return func(_ context.Context, add func(name, host string, text []byte) error) error {
				return errors.Join(add("HEAD", "", []byte("main")), add("refs/", "", nil), add("objects/pack/p", filepath.Join(objects, "pack"), nil), add("objects/", "", nil))
			}, ""
		case "tree":
			return func(_ context.Context, add func(name, host string, text []byte) error) error {
				return add("", "", []byte("gitdir: relative"))
			}, "a reason"
		}
		return nil, "another reason"
	}}
	stream, summary, err := seed(t, src, policy)
	check(t, err)
	if summary.GitMissing != "another reason; a reason" || summary.Files != 5 || summary.Directories != 7 {
		t.Errorf("%+v", summary)
	}
	var got []string
	eachEntry(t, stream, func(h *tar.Header, content io.Reader) {
		text, err := io.ReadAll(content)
		check(t, err)
		got = append(got, h.Name+"="+string(text))
	})
	want := []string{
		".git/=", ".git/HEAD=main", ".git/refs/=", ".git/objects/=", ".git/objects/pack/=", ".git/objects/pack/p=objects", "a=a",
		"below/=", "below/.git/=", "below/.git/HEAD=own", "tree/=", "tree/.git=gitdir: relative",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the stream has\n%q, not\n%q", got, want)
	}

	gone := filepath.Join(objects, "gone")
	policy.Git = func(context.Context, string) (GitFiles, string) {
		return func(_ context.Context, add func(name, host string, text []byte) error) error {
			return add("x", gone, nil)
		}, ""
	}
	if _, _, err := seed(t, src, policy); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), gone) {
		t.Errorf("a missing object: %v", err)
	}
	policy.Limits.Bytes = 3
	policy.Git = func(context.Context, string) (GitFiles, string) {
		return func(_ context.Context, add func(name, host string, text []byte) error) error {
			return add("x", filepath.Join(objects, "pack"), nil)
		}, ""
	}
	if _, _, err := seed(t, src, policy); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("objects that are too large: %v", err)
	}
}
