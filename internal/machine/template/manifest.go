package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/durable"
)

// manifest is the name of the file that describes all other files of a template.
const manifest = "template.json"

type record struct {
	Key   Key                   `json:"key"`
	Files map[string]fileRecord `json:"files"`
}

type fileRecord struct {
	Digest string     `json:"digest"`
	Stamp  disk.Stamp `json:"stamp"`
	Folder bool       `json:"folder,omitempty"` // the path is a folder, Digest comes from [stampFolder], and Stamp is unused
}

// verify compares the files in dir with the manifest. It reads a file only if the file's stamp has
// changed. It ignores the ctime, because saved machines make and remove hard links to the files.
func verify(dir string, key Key) error {
	r, err := read(dir)
	if err != nil {
		return err
	}
	if r.Key != key {
		return errors.New("it belongs to another template")
	}
	if len(r.Files) == 0 {
		return errors.New("it names no files")
	}
	restamp := false
	for file, want := range r.Files {
		path := filepath.Join(dir, filepath.Base(file))
		if want.Folder {
			digest, err := stampFolder(path)
			if err == nil && digest != want.Digest {
				err = errors.New("the content of folder " + file + " has changed")
			}
			if err != nil {
				return err
			}
			continue
		}
		stamp, err := disk.StampOf(path)
		if err != nil {
			return err
		}
		if want.Stamp.SameContent(stamp) {
			continue
		}
		if stamp.Size != want.Stamp.Size {
			return errors.New(file + " differs in size from the saved file")
		}
		digest, err := disk.Hash(path, nil)
		if err != nil {
			return err
		}
		if digest != want.Digest {
			return errors.New(file + " differs from the saved file")
		}
		r.Files[file] = fileRecord{Digest: digest, Stamp: stamp}
		restamp = true
	}
	if restamp {
		return write(dir, r)
	}
	return nil
}

func read(dir string) (r record, err error) {
	b, err := os.ReadFile(filepath.Join(dir, manifest))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// write replaces the manifest. Several processes can do so at the same time.
func write(dir string, r record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replacement{Temp: manifest + ".part-*", Unflushed: true}.Write(filepath.Join(dir, manifest), b)
}

// seal writes the manifest that describes the files in dir.
func seal(dir string, key Key) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	r := record{Key: key, Files: map[string]fileRecord{}}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			digest, err := stampFolder(path)
			if err != nil {
				return err
			}
			r.Files[e.Name()] = fileRecord{Digest: digest, Folder: true}
			continue
		}
		digest, err := disk.Hash(path, nil)
		if err != nil {
			return err
		}
		stamp, err := disk.StampOf(path)
		if err != nil {
			return err
		}
		r.Files[e.Name()] = fileRecord{Digest: digest, Stamp: stamp}
	}
	return write(dir, r)
}

func (r record) size(dir string) (total int64) {
	for file, is := range r.Files {
		path := filepath.Join(dir, filepath.Base(file))
		n, _ := disk.Allocated(path)
		if is.Folder {
			n, _, _ = tree.Size(context.Background(), path)
		}
		total += n
	}
	return total
}

// stampFolder returns a digest of the names, inode numbers, modes, owners, sizes and times of
// everything in a folder. It reads no file contents, because each change to a file changes the
// file's ctime.
func stampFolder(folder string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(sum, "%q %d %o %d %d %d %d\n", name, st.Ino, st.Mode, st.Uid, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		return nil
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}
