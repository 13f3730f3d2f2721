package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// shape is the shape of a tree that is used as a seed: a number of folders, the files in each
// folder, and the bytes in each file.
type shape struct{ folders, files, size int }

var (
	checkout = shape{100, 100, 20_000} // 10,000 files, 200 MB
	artifact = shape{20, 100, 100_000} // 2,000 files, 200 MB
	sources  = shape{200, 100, 1_000}  // 20,000 files, 20 MB
	crowd    = shape{1000, 100, 100}   // 100,000 files
)

func (s shape) folder(i int) string { return fmt.Sprintf("folder-%03d", i) }

func (s shape) file(i, j int) string { return fmt.Sprintf("%s/file-%03d.txt", s.folder(i), j) }

// content returns a function that generates reproducible, incompressible file contents.
func (s shape) content() func() []byte {
	source, text := rand.NewChaCha8([32]byte{}), make([]byte, s.size)
	return func() []byte {
		source.Read(text)
		return text
	}
}

// tree creates a folder that contains a tree of the given shape.
func (w *workspaces) tree(s shape) (string, error) {
	dir := filepath.Join(w.dir, fmt.Sprintf("tree-%d", s.folders*s.files))
	content := s.content()
	for i := range s.folders {
		if err := os.MkdirAll(filepath.Join(dir, s.folder(i)), 0o755); err != nil {
			return "", err
		}
		for j := range s.files {
			if err := os.WriteFile(filepath.Join(dir, s.file(i, j)), content(), 0o644); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

// packed creates an archive that contains a tree of the given shape.
func (w *workspaces) packed(s shape) (path string, err error) {
	path = filepath.Join(w.dir, fmt.Sprintf("tree-%d.tar", s.folders*s.files))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buffer := bufio.NewWriterSize(f, 1<<20)
	archive := tar.NewWriter(buffer)
	content, now := s.content(), time.Now()
	for i := range s.folders {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: s.folder(i) + "/", Mode: 0o755, ModTime: now}); err != nil {
			return "", err
		}
		for j := range s.files {
			if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: s.file(i, j), Mode: 0o644, Size: int64(s.size), ModTime: now}); err != nil {
				return "", err
			}
			if _, err := archive.Write(content()); err != nil {
				return "", err
			}
		}
	}
	return path, errors.Join(archive.Close(), buffer.Flush())
}

// copying returns a function that measures copying a tree with cp, including the flush.
func (w *workspaces) copying(tree string, flags ...string) func() (float64, error) {
	return func() (float64, error) {
		w.copies++
		to := filepath.Join(w.dir, fmt.Sprintf("copy-%d", w.copies))
		return clocked(func() error {
			if out, err := exec.Command("cp", append(flags, tree, to)...).CombinedOutput(); err != nil {
				return fmt.Errorf("cp: %w: %s", err, out)
			}
			return exec.Command("sync", "-f", to).Run()
		})
	}
}

// slow returns how often to repeat a measurement that takes seconds.
func (w *workspaces) slow() int { return min(w.n, 3) }

// seeded compares the time that a seed adds to the creation of a workspace with the time to copy
// the seed.
func (w *workspaces) seeded() error {
	tree, err := w.tree(checkout)
	if err != nil {
		return err
	}
	measures := []func() (float64, error){w.copying(tree, "-r")}
	for _, k := range w.kinds {
		measures = append(measures, w.creation(k, tree, nil), w.creation(k, "", nil))
	}
	r, err := w.alternate(w.slow(), measures...)
	if err != nil {
		return err
	}
	for i, k := range w.kinds {
		took := less(r[1+2*i], r[2+2*i])
		w.figures = append(w.figures, figure(string(k.isolation)+": workspace create, what 10,000 files of 200 MB cost; floor: cp -r, sync", "ms", took).times(took, r[0], 1.5))
	}
	return nil
}
