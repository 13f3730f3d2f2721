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

// image is the record of an image. It is stored next to the image.
type image struct {
	Digest string     `json:"digest"`
	Stamp  disk.Stamp `json:"stamp"`
}

func (s *Store) contentDir(digest string) string {
	return filepath.Join(s.root, "content", strings.TrimPrefix(digest, "sha256:"))
}

// seal completes the image in a directory. It makes the image file read-only, flushes it to disk
// and writes its record. It returns the digest of the image and a shared lock.
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
	if err := writeImageInfo(dir, digest); err != nil {
		return "", nil, err
	}
	lock, err := flock.Try(filepath.Join(dir, lockFile), flock.Shared)
	return digest, lock, err
}

func writeImageInfo(dir, digest string) error {
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

// verify compares the image with its digest. It returns nil, a fault of kind Corrupt, or an error
// that prevented the check. It reads the content only if the file has changed since the last check.
func (s *Store) verify(ctx context.Context, digest, subject string, report progress.Func) error {
	dir := s.contentDir(digest)
	path := filepath.Join(dir, imageFile)
	now, err := disk.StampOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(subject, "the image is missing")
	} else if err != nil {
		return err
	}
	if journal, err := ext4image.HasJournal(path); err == nil && !journal {
		return damaged(subject, "an earlier pyro built the image without a journal, so a crash could damage it")
	}
	var known image
	if text, err := os.ReadFile(filepath.Join(dir, imageInfo)); err == nil && json.Unmarshal(text, &known) == nil && known.Digest == digest && known.Stamp == now {
		return nil
	}
	if now.Size != ext4image.VirtualSize {
		return damaged(subject, "the image is truncated")
	}
	found, err := hash(ctx, path, "checking the image", subject, report)
	if err != nil {
		return err
	}
	if found != digest {
		return damaged(subject, "the image has been changed")
	}
	// If this fails because the cache is read-only, the image is still valid. The next call then
	// hashes the image again.
	_ = writeImageInfo(dir, digest)
	return nil
}

func damaged(subject, how string) error {
	return fault.New(fault.Corrupt, "check environment", subject, "%s", how)
}

// hash returns the digest of an image. It checks ctx only before and after hashing. Hashing takes
// at most a few seconds, because holes are not read.
func hash(ctx context.Context, path, phase, subject string, report progress.Func) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	total, err := disk.Allocated(path)
	if err != nil {
		return "", err
	}
	event, reported := progress.Event{Phase: phase, Subject: subject, Total: total}, int64(0)
	digest, err := disk.Hash(path, func(done int64) {
		if event.Done = min(done, total); event.Done-reported >= 16<<20 {
			reported = event.Done
			report.Report(event)
		}
	})
	return digest, errors.Join(err, ctx.Err())
}

// install renames a sealed directory into the store. If the store already has a valid image with
// the same digest, install uses that image instead. During the call, install holds the content
// lock. The caller must hold the returned lock while it uses the image.
func (s *Store) install(ctx context.Context, staged, digest, subject string, sealed *flock.Lock, report progress.Func) (*flock.Lock, error) {
	content, err := s.lockContent(ctx)
	if err != nil {
		return nil, err
	}
	defer content.Release()
	dir := s.contentDir(digest)
	if _, err := os.Stat(dir); err == nil {
		err := s.verify(ctx, digest, subject, report)
		if err == nil {
			return flock.Take(ctx, filepath.Join(dir, lockFile), flock.Shared, nil)
		}
		if fault.KindOf(err) != fault.Corrupt {
			return nil, err
		}
		if err := s.discard(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := errors.Join(durable.Sync(staged), os.Rename(staged, dir), durable.Sync(filepath.Dir(dir))); err != nil {
		return nil, err
	}
	return sealed, nil
}

// lockContent takes the lock that protects adding and removing content directories.
func (s *Store) lockContent(ctx context.Context) (*flock.Lock, error) {
	return takeLock(ctx, filepath.Join(s.root, "locks"), ".content", nil)
}

// discard removes a content directory atomically. The caller must hold the content lock.
func (s *Store) discard(dir string) error {
	trash, err := newStaging(s.root)
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(dir, trash.path("content")), trash.Close())
}
