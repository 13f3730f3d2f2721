package volume

import (
	"errors"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// model applies one operation in the simplest possible way.
func model(dir string, e volumetest.Edit) error {
	at := filepath.Join(dir, e.Path)
	if e.Op != "delete" && e.Op != "mode" {
		if err := modelFolder(dir, filepath.Dir(e.Path)); err != nil {
			return err
		}
	} else if err := plainFolder(dir, filepath.Dir(e.Path)); err != nil {
		return err
	}
	there, err := os.Lstat(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if e.Mode == 0 {
		e.Mode = map[bool]int64{false: 0o644, true: 0o755}[e.Op == "folder"]
	}
	mode := modeOf(e.Mode)
	if there != nil && there.IsDir() && e.Op != "folder" && e.Op != "delete" && e.Op != "mode" {
		return errors.New("it is a directory")
	}
	switch e.Op {
	case "":
		if e.Keep && there != nil && there.Mode().IsRegular() {
			mode = there.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
		}
		os.Remove(at)
		return errors.Join(os.WriteFile(at, []byte(e.Text), 0o600), os.Chmod(at, mode), os.Chtimes(at, volumetest.When, volumetest.When))
	case "symlink":
		os.Remove(at)
		return os.Symlink(e.Text, at)
	case "link":
		if err := plainFolder(dir, filepath.Dir(e.Text)); err != nil {
			return err
		}
		target := filepath.Join(dir, e.Text)
		info, err := os.Lstat(target)
		if err != nil || info.IsDir() {
			return errors.New("no target")
		}
		if there != nil && os.SameFile(info, there) {
			return nil
		}
		os.Remove(at)
		return os.Link(target, at)
	case "folder":
		switch {
		case there == nil:
			return errors.Join(os.Mkdir(at, 0o700), os.Chmod(at, mode))
		case !there.IsDir():
			return errors.New("no folder")
		case e.Keep:
			return nil
		}
		return os.Chmod(at, mode)
	case "mode":
		if there == nil || !there.IsDir() && !there.Mode().IsRegular() {
			return errors.New("no mode")
		}
		return os.Chmod(at, mode)
	default:
		return os.Remove(at)
	}
}

func modeOf(mode int64) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	if mode&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if mode&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// plainFolder checks that a path is a directory, and that no part of the path is a link.
func plainFolder(dir, name string) error {
	for at := name; at != "."; at = filepath.Dir(at) {
		if info, err := os.Lstat(filepath.Join(dir, at)); err != nil || !info.IsDir() {
			return errors.New("no folder")
		}
	}
	return nil
}

func modelFolder(dir, name string) error {
	if name == "." {
		return nil
	}
	if err := modelFolder(dir, filepath.Dir(name)); err != nil {
		return err
	}
	err := os.Mkdir(filepath.Join(dir, name), 0o755)
	if errors.Is(err, fs.ErrExist) {
		return plainFolder(dir, name)
	}
	return errors.Join(err, os.Chmod(filepath.Join(dir, name), 0o755))
}

// randomPath returns a random path. There are only few such paths, so that operations collide.
func randomPath(random *rand.Rand) string {
	path := string("abc"[random.Intn(3)])
	for random.Intn(2) == 0 {
		path += "/" + string("abc"[random.Intn(3)])
	}
	return path
}

func someEdit(random *rand.Rand) volumetest.Edit {
	e := volumetest.Edit{
		Op:   []string{"", "", "", "folder", "symlink", "link", "mode", "delete", "delete", "delete"}[random.Intn(10)],
		Path: randomPath(random), Mode: []int64{0o644, 0o600, 0o755, 0o4711, 0o1777}[random.Intn(5)], Keep: random.Intn(4) == 0,
	}
	switch e.Op {
	case "":
		e.Text = strings.Repeat("x", random.Intn(100))
	case "link", "symlink":
		e.Text = randomPath(random)
	}
	return e
}

// someTree creates a random tree.
func someTree(t testing.TB, dir string, random *rand.Rand) {
	t.Helper()
	for range 12 {
		if e := someEdit(random); e.Op != "delete" {
			model(dir, e)
		}
	}
}

// randomChange returns random operations. If right is true, it omits operations that fail in the
// model.
func randomChange(t testing.TB, dir string, random *rand.Rand, right bool) []volumetest.Edit {
	t.Helper()
	var edits []volumetest.Edit
	scratch := filepath.Join(volumetest.InMemory(t), "scratch")
	fresh := false
	for n := 1 + random.Intn(12); n > 0; n-- {
		e := someEdit(random)
		if right && !fresh {
			copyTree(t, dir, scratch)
			for _, before := range edits {
				model(scratch, before)
			}
		}
		if fresh = !right || model(scratch, e) == nil; fresh {
			edits = append(edits, e)
		}
	}
	return edits
}

// copyTree replaces a directory with a copy of another one.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	os.RemoveAll(to)
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestChangeMatchesModel checks that a change has the same result as its
// operations in the model, applied one after another.
func TestChangeMatchesModel(t *testing.T) {
	testenv.NeedsRoot(t, "enter folders of any mode")
	rounds := 200
	if testing.Short() {
		rounds = 50
	}
	done, refused := 0, 0
	for seed := range testenv.Seeds(t, rounds) {
		random := rand.New(rand.NewSource(int64(seed)))
		s := storedIn(t, volumetest.InMemory(t))
		someTree(t, s.files, random)
		edits := randomChange(t, s.files, random, seed%3 > 0)
		want := filepath.Join(volumetest.InMemory(t), "want")
		copyTree(t, s.files, want)
		before := volumetest.Tree(t, s.files)
		var wrong error
		merged := int64(0) // existing folders, which no count contains
		for _, e := range edits {
			if e.Op == "folder" && plainFolder(want, e.Path) == nil {
				merged++
			}
			if wrong = model(want, e); wrong != nil {
				break
			}
		}
		counts, err := s.change(t, volumetest.Archive(t, edits...))
		if (err == nil) != (wrong == nil) {
			t.Fatalf("seed %d: %+v: %v, and the model: %v", seed, edits, err, wrong)
		}
		expected := before
		if wrong == nil {
			expected = volumetest.Tree(t, want)
			done++
		} else {
			refused++
		}
		if got := volumetest.Tree(t, s.files); got != expected {
			t.Fatalf("seed %d: %+v: %v\n%s\nand not\n%s\nbut before\n%s", seed, edits, err, got, expected, before)
		}
		if wrong == nil && counts.Created+counts.Replaced+counts.Deleted+merged != int64(len(edits)) {
			t.Errorf("seed %d: %d operations, counts %+v", seed, len(edits), counts)
		}
		volumetest.NothingPending(t, s.dir)
	}
	if t.Logf("%d done, %d refused", done, refused); done < rounds/3 || refused < rounds/10 {
		t.Errorf("%d done, %d refused: the test covered too little", done, refused)
	}
}
