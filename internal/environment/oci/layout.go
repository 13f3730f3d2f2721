package oci

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// refName is the annotation of a layout's index that contains the name of an image.
const refName = "org.opencontainers.image.ref.name"

// Save writes an image as an OCI layout to an empty folder.
func Save(folder, name string, img v1.Image) error {
	l, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	return l.AppendImage(img, layout.WithAnnotations(map[string]string{refName: name}))
}

// maxManifests is the maximum number of images in a layout.
const maxManifests = 1000

// Load reads the image for this architecture from an OCI layout. It copies the layers to dir, and
// otherwise works like [Fetch]. It also returns the name of the image in the layout, which can be
// empty.
func Load(ctx context.Context, folder, dir string, space func(int64) error, report progress.Func) (img *Image, name string, err error) {
	if err := checkFiles(folder); err != nil {
		return nil, "", err
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, "", unreadable(err)
	}
	found, name, err := pick(folder, index, 0)
	if err != nil {
		return nil, "", err
	}
	manifest, err := found.Manifest()
	if err != nil {
		return nil, "", unreadable(err)
	}
	if err := checkBlob(folder, manifest.Config); err != nil {
		return nil, "", err
	}
	failed := func(err error, _ string) error { return unreadable(err) }
	img, err = read(ctx, found, source{name: folder, explain: failed}, dir, space, report)
	return img, name, err
}

// maxFiles is the maximum number of entries of an archive with a layout.
const maxFiles = 10_000

var layoutFile = lazyregexp.New(`^(index\.json|oci-layout|blobs/sha256/[0-9a-f]{64})$`)

// UnpackLayout unpacks a tar archive that contains an OCI layout into an empty folder. It skips
// files that are not part of a layout.
func UnpackLayout(ctx context.Context, from io.Reader, folder string) error {
	if err := os.MkdirAll(filepath.Join(folder, "blobs", "sha256"), 0o755); err != nil {
		return err
	}
	archive, left := tar.NewReader(from), int64(MaxCompressed)
	for range maxFiles {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable(err)
		}
		name := path.Clean("/" + h.Name)[1:]
		if h.Typeflag != tar.TypeReg || !layoutFile().MatchString(name) {
			continue
		}
		if left -= h.Size; left < 0 {
			return fault.Newf(fault.Exhausted, "an image can have at most %d GiB", MaxCompressed>>30)
		}
		if err := unpackFile(ctx, archive, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return fault.Newf(fault.Exhausted, "the archive has more than %d files", maxFiles)
}

func unpackFile(ctx context.Context, from io.Reader, path string) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	left := int64(math.MaxInt64)
	_, err = io.Copy(file, &boundedReader{ctx, from, &left})
	return err
}

func unreadable(err error) error {
	if known := fault.KindOf(err); known == fault.Canceled || known == fault.Exhausted || known == fault.Unsupported {
		return err
	}
	return &fault.Error{Op: "read OCI layout", Kind: fault.Corrupt, Err: err}
}

// checkFiles returns an error if a layout contains anything but files and folders. A pipe could
// block its reader forever.
func checkFiles(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !entry.Type().IsRegular() {
			return fault.New(fault.Corrupt, "read OCI layout", path, "it is not a file")
		}
		if err == nil && filepath.Dir(path) == folder && !entry.IsDir() {
			if info, err := entry.Info(); err != nil || info.Size() > maxConfig {
				return fault.New(fault.Corrupt, "read OCI layout", path, "it has more than %d MiB", maxConfig>>20)
			}
		}
		return err
	})
}

// checkBlob compares a blob with its descriptor. The library reads manifests and configurations as
// they are, without a limit.
func checkBlob(folder string, d v1.Descriptor) error {
	if d.Digest.Algorithm != "sha256" {
		return fault.Newf(fault.Unsupported, "digests of %s are not supported", d.Digest.Algorithm)
	}
	file, err := os.Open(filepath.Join(folder, "blobs", "sha256", d.Digest.Hex))
	if err != nil {
		return unreadable(err)
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(file, maxConfig+1))
	if err != nil {
		return unreadable(err)
	}
	if n > maxConfig || n != d.Size || hex.EncodeToString(hash.Sum(nil)) != d.Digest.Hex {
		return fault.New(fault.Corrupt, "read OCI layout", d.Digest.String(), "the blob does not have its size or digest, or it has more than %d MiB", maxConfig>>20)
	}
	return nil
}

// pick returns the first image for this architecture, and its name.
func pick(folder string, index v1.ImageIndex, depth int) (v1.Image, string, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, "", unreadable(err)
	}
	if depth > 2 || len(manifest.Manifests) > maxManifests {
		return nil, "", fault.New(fault.Corrupt, "read OCI layout", "", "it has too many images")
	}
	for _, d := range manifest.Manifests {
		if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH) || d.Size > maxConfig {
			continue
		}
		name := d.Annotations[refName]
		switch d.MediaType {
		case types.OCIManifestSchema1, types.DockerManifestSchema2:
			if err := checkBlob(folder, d); err != nil {
				return nil, "", err
			}
			img, err := index.Image(d.Digest)
			return img, name, unreadableOrNil(err)
		case types.OCIImageIndex, types.DockerManifestList:
			if err := checkBlob(folder, d); err != nil {
				return nil, "", err
			}
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, "", unreadable(err)
			}
			if img, below, err := pick(folder, inner, depth+1); err == nil {
				if name == "" {
					name = below
				}
				return img, name, nil
			}
		}
	}
	return nil, "", fault.New(fault.NotFound, "read OCI layout", "", "it has no image for linux/%s", runtime.GOARCH)
}

func unreadableOrNil(err error) error {
	if err == nil {
		return nil
	}
	return unreadable(err)
}
