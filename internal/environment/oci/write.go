package oci

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pyro-mcp/pyro/internal/progress"
)

// Layer writes a layer as a tar archive. It must write the same bytes each time.
type Layer func(ctx context.Context, to io.Writer) error

// Compose returns an OCI image for this architecture with the given layers, lowest first. The image
// reads the layers when its content is needed, several times, until ctx ends.
func Compose(ctx context.Context, config v1.Config, layers []Layer) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	var err error
	for _, l := range layers {
		var layer v1.Layer
		layer, err = tarball.LayerFromOpener(func() (io.ReadCloser, error) { return l.open(ctx), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	file.Created = v1.Time{Time: time.Unix(0, 0).UTC()} // constant, so that equal environments give equal images
	return mutate.ConfigFile(img, file)
}

// open returns the bytes of a layer.
func (l Layer) open(ctx context.Context) io.ReadCloser {
	in, out := io.Pipe()
	go func() { out.CloseWithError(l(ctx, out)) }()
	return in
}

// Whiteouts copies a layer. It replaces the marks of removed files, which are devices with number 0
// in the source, by the whiteout files of OCI.
func Whiteouts(from io.Reader, to io.Writer) error {
	in, out := tar.NewReader(from), tar.NewWriter(to)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0 {
			folder, base := path.Split(h.Name)
			h = &tar.Header{Typeflag: tar.TypeReg, Name: folder + whiteout + strings.TrimSuffix(base, "/"), ModTime: h.ModTime, Format: tar.FormatPAX}
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// Push writes an image to a registry. Registries on this host can use plain HTTP. Credentials come
// from `docker login`. It returns the digest of the manifest.
func Push(ctx context.Context, ref name.Reference, img v1.Image, report progress.Func) (digest string, err error) {
	updates, done := make(chan v1.Update, 16), make(chan struct{})
	go func() {
		defer close(done)
		for u := range updates {
			report.Report(progress.Event{Phase: "pushing layers", Subject: ref.Name(), Done: u.Complete, Total: u.Total})
		}
	}()
	err = remote.Write(ref, img, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithProgress(updates))
	<-done
	if err != nil {
		return "", explain(err, "push", ref)
	}
	sum, err := img.Digest()
	return sum.String(), err
}
