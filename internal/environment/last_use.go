package environment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// usedFile is an empty file beside an image. Its modification time is the time of the last use.
const usedFile = "used"

// used records that the image of a reference is used now, and returns the reference. It ignores
// errors, because the cache can be read-only. The caller has a lock on the image, so no process can
// remove the folder. Concurrent calls write the same time.
func used(ref *ImageRef) *ImageRef {
	path := filepath.Join(filepath.Dir(ref.Image), usedFile)
	now := time.Now()
	if err := os.Chtimes(path, now, now); errors.Is(err, fs.ErrNotExist) {
		if f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644); err == nil {
			f.Close()
		}
	}
	return ref
}

// lastUse returns the time of the last use of the image in a content directory. It is zero if the
// image was never used, or if its last use could not be recorded.
func lastUse(dir string) time.Time {
	info, err := os.Stat(filepath.Join(dir, usedFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().UTC()
}
