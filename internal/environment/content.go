package environment

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/progress"
)

const (
	imageFile = "rootfs.ext4"
	imageInfo = "image.json"
	lockFile  = "lock"
)

// image is the record of one image, beside it.
type image struct {
	Digest string     `json:"digest"`
	Stamp  disk.Stamp `json:"stamp"`
}

func (s *Store) contentDir(digest string) string {
	return filepath.Join(s.root, "content", strings.TrimPrefix(digest, "sha256:"))
}

// seal finishes an image in a folder: read-only, flushed, described, and locked shared by the caller.
func seal(ctx context.Context, dir, subject string, report progress.Func) (string, *flock.Lock, error) {
	path := filepath.Join(dir, imageFile)
	digest, err := hash(ctx, path, "hashing the image", subject, report)
	if err != nil {
		return "", nil, err
	}
	report.Phase("flushing the image to disk", subject)
	if err := errors.Join(os.Chmod(path, 0o444), durable.Sync(path)); err != nil {
		return "", nil, err
	}
	if err := restamp(dir, digest); err != nil {
		return "", nil, err
	}
	lock, err := flock.Try(filepath.Join(dir, lockFile), flock.Shared)
	return digest, lock, err
}

func restamp(dir, digest string) error {
	now, err := disk.StampOf(filepath.Join(dir, imageFile))
	if err != nil {
		return err
	}
	text, err := json.Marshal(image{digest, now})
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, imageInfo), text)
}

// verify tells whether the image of a digest is whole: nil, a fault of kind Corrupt, or what kept it from looking. It looks at the content only where the
// file has been touched since it was last known to be whole.
func (s *Store) verify(ctx context.Context, digest, subject string, report progress.Func) error {
	dir := s.contentDir(digest)
	path := filepath.Join(dir, imageFile)
	now, err := disk.StampOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(subject, "its image is missing")
	} else if err != nil {
		return err
	}
	if journal, err := ext4image.HasJournal(path); err == nil && !journal {
		return damaged(subject, "its image was made by an earlier pyro, and could be lost in a crash")
	}
	var known image
	if text, err := os.ReadFile(filepath.Join(dir, imageInfo)); err == nil && json.Unmarshal(text, &known) == nil && known.Digest == digest && known.Stamp == now {
		return nil
	}
	if now.Size != ext4image.VirtualSize {
		return damaged(subject, "its image has been cut")
	}
	found, err := hash(ctx, path, "checking the image", subject, report)
	if err != nil {
		return err
	}
	if found != digest {
		return damaged(subject, "its image has been changed")
	}
	// Where this fails, in a cache that can't be written, the image is whole all the same and is hashed again the next time.
	_ = restamp(dir, digest)
	return nil
}

func damaged(subject, how string) error {
	return fault.New(fault.Corrupt, "check environment", subject, "%s", how)
}

// hash gives the digest of an image's content. Cancelling ctx takes effect before and after it, which is seconds at most: holes are not read.
func hash(ctx context.Context, path, phase, subject string, report progress.Func) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	total, err := disk.Allocated(path)
	if err != nil {
		return "", err
	}
	event, told := progress.Event{Phase: phase, Subject: subject, Total: total}, int64(0)
	digest, err := disk.Hash(path, func(done int64) {
		if event.Done = min(done, total); event.Done-told >= 16<<20 {
			told = event.Done
			report.Report(event)
		}
	})
	return digest, errors.Join(err, ctx.Err())
}

// install puts a sealed folder in its place, unless a whole image with the same content is there already. It keeps prune and others away meanwhile.
// The lock that is given back is the one to hold while the image is used.
func (s *Store) install(ctx context.Context, staged, digest, subject string, sealed *flock.Lock, report progress.Func) (*flock.Lock, error) {
	content, err := s.lockContent(ctx)
	if err != nil {
		return nil, err
	}
	defer content.Release()
	place := s.contentDir(digest)
	if _, err := os.Stat(place); err == nil {
		err := s.verify(ctx, digest, subject, report)
		if err == nil {
			return flock.Take(ctx, filepath.Join(place, lockFile), flock.Shared, nil)
		}
		if fault.KindOf(err) != fault.Corrupt {
			return nil, err
		}
		if err := s.discard(place); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return nil, err
	}
	if err := errors.Join(durable.Sync(staged), os.Rename(staged, place), durable.Sync(filepath.Dir(place))); err != nil {
		return nil, err
	}
	return sealed, nil
}

// lockContent is held while folders of content come and go.
func (s *Store) lockContent(ctx context.Context) (*flock.Lock, error) {
	return waitFor(ctx, filepath.Join(s.root, "locks"), ".content", nil)
}

// discard removes a folder of content in one step, as others see it. The caller holds the lock of content.
func (s *Store) discard(dir string) error {
	trash, err := newStaging(s.root)
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(dir, trash.path("content")), trash.Close())
}
