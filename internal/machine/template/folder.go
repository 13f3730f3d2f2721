package template

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

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
