package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// The bounds of an image.
const (
	MaxLayers     = 256
	MaxCompressed = 4 << 30 // all layers together, as they are sent
	MaxBytes      = 8 << 30 // all layers together, unpacked, what later layers hide counted too
	MaxEntries    = 1 << 20 // likewise
	maxConfig     = 8 << 20
	maxEnv        = 256 // entries
	maxEnvBytes   = 64 << 10
	maxWord       = 4096 // of User and WorkDir
)

// stall is how long a registry may send nothing at all.
var stall = 60 * time.Second

var errStalled = errors.New("the registry has stopped sending")

// Image is a pulled image whose layers are in a local folder, each checked against its digest.
type Image struct {
	ManifestDigest string // of this architecture's manifest
	Description    string
	Env            []string
	User, WorkDir  string

	layers []string // paths, the lowest first
	flat   *flattened
}

// Fetch pulls an image for this architecture into dir. Registries on this host may speak plain HTTP. Credentials are those of `docker login`.
// space is asked whether so many bytes may be written, twice: for the layers and for what they unpack to.
func Fetch(ctx context.Context, ref name.Reference, dir string, space func(int64) error, report progress.Func) (*Image, error) {
	report.Phase("asking the registry", ref.Name())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watchdog.Stop()
	explain := func(err error, op string, ref name.Reference) error {
		if errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		return explain(err, op, ref)
	}

	transport := remote.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(transport), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return nil, explain(err, "pull", ref)
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, explain(err, "read the manifest of", ref)
	}
	var total int64
	for _, layer := range manifest.Layers {
		if layer.Size < 0 || layer.Size > MaxCompressed {
			total = MaxCompressed + 1
			break
		}
		total += layer.Size
	}
	if len(manifest.Layers) > MaxLayers || total > MaxCompressed || manifest.Config.Size > maxConfig {
		return nil, fault.New(fault.Exhausted, "pull", ref.Name(), "an image may have %d layers of %d GiB together", MaxLayers, MaxCompressed>>30)
	}
	if err := space(total); err != nil {
		return nil, err
	}
	result := &Image{}
	if err := result.describe(img); err != nil {
		return nil, explain(err, "read the configuration of", ref)
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, explain(err, "read the layers of", ref)
	}
	done := counter{watchdog: watchdog, report: report, event: progress.Event{Phase: "pulling layers", Subject: ref.Name(), Total: total}}
	for i, layer := range layers {
		path := filepath.Join(dir, fmt.Sprintf("layer-%d", i))
		if err := download(layer, manifest.Layers[i], path, &done); err != nil {
			return nil, explain(err, "pull a layer of", ref)
		}
		result.layers = append(result.layers, path)
	}
	watchdog.Stop()
	report.Phase("reading layers", ref.Name())
	if result.flat, err = flatten(ctx, result.layers); err != nil {
		return nil, err
	}
	return result, space(result.flat.bytes)
}

func (i *Image) describe(img v1.Image) error {
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return err
	}
	if file.OS != "" && file.OS != "linux" || file.Architecture != "" && file.Architecture != runtime.GOARCH {
		return fault.Newf(fault.Unsupported, "the image is for %s/%s, this host runs linux/%s", file.OS, file.Architecture, runtime.GOARCH)
	}
	i.ManifestDigest = digest.String()
	i.Env, i.User, i.WorkDir = file.Config.Env, file.Config.User, file.Config.WorkingDir
	i.Description = file.Config.Labels["org.opencontainers.image.title"]
	if len(i.Description) > 200 || strings.ContainsFunc(i.Description, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		i.Description = ""
	}
	bytes := 0
	for _, entry := range i.Env {
		bytes += len(entry)
	}
	bad := func(s string) bool { return strings.ContainsRune(s, 0) }
	noPair := func(s string) bool { return bad(s) || strings.IndexByte(s, '=') < 1 }
	switch {
	case len(i.Env) > maxEnv || bytes > maxEnvBytes || len(i.User) > maxWord || len(i.WorkDir) > maxWord:
		return fault.Newf(fault.Exhausted, "the image's environment is larger than %d KiB", maxEnvBytes>>10)
	case bad(i.User) || bad(i.WorkDir) || slices.ContainsFunc(i.Env, noPair):
		return fault.Newf(fault.Corrupt, "the image's configuration makes no sense")
	case i.WorkDir != "" && !filepath.IsAbs(i.WorkDir):
		i.WorkDir = "/" + i.WorkDir
	}
	return nil
}

// download writes a layer as it is sent. The digest is checked here and not by who reads the layer, who may stop before its end.
func download(layer v1.Layer, want v1.Descriptor, path string, done *counter) error {
	if want.Digest.Algorithm != "sha256" {
		return fault.Newf(fault.Unsupported, "digests of %s are not supported", want.Digest.Algorithm)
	}
	in, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer in.Close()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, hash, done), io.LimitReader(in, want.Size+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(hash.Sum(nil)); n != want.Size || got != want.Digest.String() {
		return fault.Newf(fault.Corrupt, "the registry sent %d bytes with digest %s for a layer of %d bytes with %s", n, got, want.Size, want.Digest)
	}
	return nil
}

// counter reports bytes as they come, at most once a MiB.
type counter struct {
	watchdog *time.Timer
	report   progress.Func
	event    progress.Event
	told     int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.watchdog.Reset(stall)
	c.event.Done += int64(len(p))
	if c.event.Done-c.told >= 1<<20 || c.event.Done == c.event.Total {
		c.told = c.event.Done
		c.report.Report(c.event)
	}
	return len(p), nil
}
