package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Limits for an image.
const (
	MaxLayers     = 256
	MaxCompressed = 4 << 30 // compressed size of all layers, in bytes
	MaxBytes      = 8 << 30 // In bytes. Unpacked size of all layers, including files that later layers hide.
	MaxEntries    = 1 << 20 // number of entries of all layers
	maxConfig     = 8 << 20
	maxEnv        = 256 // number of variables; the same limit applies to the words of the command
	maxEnvBytes   = 64 << 10
	maxWord       = 4096    // Of User and of WorkDir, in bytes.
	maxKept       = 1 << 20 // Size of the configuration that an environment keeps, in bytes.
)

// stallTimeout is the maximum time that a registry can take without sending data.
var stallTimeout = 60 * time.Second

var errStalled = errors.New("the registry stopped sending data")

// Image is a pulled image. Its layers are local files with verified digests.
type Image struct {
	ManifestDigest string // digest of the manifest for this architecture
	Description    string
	Config         v1.Config // only the fields that a Dockerfile can set

	layers []string // paths of the layers, lowest first
	flat   *flattened
}

// Reach decides whether pyro is allowed to connect to an address of a registry, or of a server that
// a registry names. It returns the reason if not. Nil allows all addresses.
type Reach func(netip.AddrPort) error

// Fetch pulls an image for this architecture to dir. Registries on this host can use plain HTTP.
// With a reach, Fetch uses no credentials and no proxy. Otherwise credentials come from `docker
// login`. Fetch calls the function space twice, each time with the necessary space in bytes: first
// for the layers, and then for their unpacked content. The function must return an error if that
// space is not free.
func Fetch(ctx context.Context, ref name.Reference, dir string, reach Reach, space func(int64) error, report progress.Func) (*Image, error) {
	report.Phase("asking the registry", ref.Name())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer watchdog.Stop()
	explain := func(err error, op string, ref name.Reference) error {
		if errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		err = explain(err, op, ref)
		if f, ok := err.(*fault.Error); ok && reach != nil && (f.Kind == fault.Unavailable || f.Kind == fault.Permission) {
			f.WithHint("pyro env pull %s", ref)
		}
		return err
	}

	transport := remote.DefaultTransport.(*http.Transport).Clone()
	var keys authn.Keychain = authn.DefaultKeychain
	if reach != nil {
		transport.Proxy, transport.DialContext, keys = nil, reach.dial, authn.NewMultiKeychain()
	}
	defer transport.CloseIdleConnections()
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(transport), remote.WithAuthFromKeychain(keys),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return nil, explain(err, "pull", ref)
	}
	failed := func(err error, op string) error { return explain(err, op, ref) }
	return read(ctx, img, source{ref.Name(), failed, watchdog}, dir, space, report)
}

// dial connects to a server. It checks each address that the server's name resolves to.
func (r Reach) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err == nil {
			err = r(to)
		}
		if err != nil {
			return &unreachable{address, err}
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}

// unreachable is the error for an address that a Reach does not allow.
type unreachable struct {
	address string
	reason  error
}

func (u *unreachable) Error() string {
	return fmt.Sprintf("clients cannot pull from %s: %v", u.address, u.reason)
}

// source is where an image comes from.
type source struct {
	name     string
	explain  func(err error, op string) error // completes an error
	watchdog *time.Timer                      // reset when data arrives; can be nil
}

// read copies the layers of an image to dir, as described at [Fetch].
func read(ctx context.Context, img v1.Image, from source, dir string, space func(int64) error, report progress.Func) (*Image, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, from.explain(err, "read the manifest of")
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
		return nil, fault.New(fault.Exhausted, "read", from.name, "an image can have at most %d layers and %d GiB", MaxLayers, MaxCompressed>>30)
	}
	if err := space(total); err != nil {
		return nil, err
	}
	result := &Image{}
	if err := result.describe(img); err != nil {
		return nil, from.explain(err, "read the configuration of")
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, from.explain(err, "read the layers of")
	}
	done := counter{watchdog: from.watchdog, report: report, event: progress.Event{Phase: "reading layers", Subject: from.name, Total: total}}
	if from.watchdog != nil {
		done.event.Phase = "pulling layers"
	}
	for i, layer := range layers {
		path := filepath.Join(dir, fmt.Sprintf("layer-%d", i))
		if err := download(layer, manifest.Layers[i], path, &done); err != nil {
			return nil, from.explain(err, "read a layer of")
		}
		result.layers = append(result.layers, path)
	}
	if from.watchdog != nil {
		from.watchdog.Stop()
	}
	report.Phase("reading layers", from.name)
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
		return fault.Newf(fault.Unsupported, "the image is for %s/%s, but this host is linux/%s", file.OS, file.Architecture, runtime.GOARCH)
	}
	i.ManifestDigest = digest.String()
	c := file.Config
	i.Config = v1.Config{
		Env: c.Env, User: c.User, WorkingDir: c.WorkingDir, Entrypoint: c.Entrypoint, Cmd: c.Cmd, Shell: c.Shell, OnBuild: c.OnBuild,
		Labels: c.Labels, ExposedPorts: c.ExposedPorts, Volumes: c.Volumes, StopSignal: c.StopSignal, Healthcheck: c.Healthcheck,
	}
	i.Description = c.Labels["org.opencontainers.image.title"]
	if len(i.Description) > 200 || strings.ContainsFunc(i.Description, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		i.Description = ""
	}
	return checkConfig(&i.Config)
}

// checkConfig checks the configuration of an image, and makes its working directory absolute.
func checkConfig(c *v1.Config) error {
	words := slices.Concat(c.Entrypoint, c.Cmd, c.Shell, c.OnBuild)
	bad := func(s string) bool { return strings.ContainsRune(s, 0) }
	noPair := func(s string) bool { return bad(s) || strings.IndexByte(s, '=') < 1 }
	text, err := json.Marshal(c)
	switch {
	case err != nil:
		return err
	case tooManyWords(c.Env) || len(c.User) > maxWord || len(c.WorkingDir) > maxWord:
		return fault.Newf(fault.Exhausted, "the image's environment is larger than %d KiB", maxEnvBytes>>10)
	case tooManyWords(slices.Concat(c.Entrypoint, c.Cmd)) || tooManyWords(c.Shell) || tooManyWords(c.OnBuild):
		return fault.Newf(fault.Exhausted, "a command of the image has more than %d words or %d KiB", maxEnv, maxEnvBytes>>10)
	case len(text) > maxKept:
		return fault.Newf(fault.Exhausted, "the image's configuration has more than %d MiB", maxKept>>20)
	case bad(c.User) || bad(c.WorkingDir) || slices.ContainsFunc(c.Env, noPair) || slices.ContainsFunc(words, bad):
		return fault.Newf(fault.Corrupt, "the image has an invalid configuration")
	case c.WorkingDir != "" && !filepath.IsAbs(c.WorkingDir):
		c.WorkingDir = "/" + c.WorkingDir
	}
	return nil
}

func tooManyWords(words []string) bool {
	bytes := 0
	for _, w := range words {
		bytes += len(w)
	}
	return len(words) > maxEnv || bytes > maxEnvBytes
}

// download writes a compressed layer to a file and checks its digest. The check must happen here,
// because readers of the layer can stop before its end.
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

// counter reports progress at most once per MiB, and when the download is complete.
type counter struct {
	watchdog *time.Timer
	report   progress.Func
	event    progress.Event
	reported int64
}

func (c *counter) Write(p []byte) (int, error) {
	if c.watchdog != nil {
		c.watchdog.Reset(stallTimeout)
	}
	c.event.Done += int64(len(p))
	if c.event.Done-c.reported >= 1<<20 || c.event.Done == c.event.Total {
		c.reported = c.event.Done
		c.report.Report(c.event)
	}
	return len(p), nil
}
