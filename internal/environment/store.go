package environment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/environment/debian"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/environment/oci"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// ErrNotInstalled is the cause of errors about an environment that is known but not installed on
// this host.
var ErrNotInstalled = errors.New("not installed")

// Store stores environments and kernels on this host. Goroutines and processes can use it
// concurrently.
type Store struct {
	root    string // directory of environments
	kernels string
	added   *Store    // images without names, which were created on this host
	reach   oci.Reach // limits pulls from registries

	// Functions that build from Debian packages. Tests replace them.
	bootstrap     func(ctx context.Context, packages []string, dir string, out io.Writer, report progress.Func, subject string) error
	kernelPackage func(ctx context.Context, dir string, report progress.Func) (string, error)
}

// Open returns the store in the user's directories. It creates no files before the first pull.
func Open(d dirs.Dirs) *Store {
	return &Store{root: d.Environments(), kernels: d.Kernels(), added: &Store{root: d.Images()}, bootstrap: debian.Bootstrap, kernelPackage: debian.KernelPackage}
}

// List returns the catalogue and all installed environments, sorted by name.
func (s *Store) List(ctx context.Context) ([]Environment, error) {
	all := slices.Clone(catalogue)
	records, err := s.records()
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		if i := slices.IndexFunc(all, func(e Environment) bool { return e.Name == record.Name }); i >= 0 {
			all[i] = record
		} else {
			all = append(all, record)
		}
	}
	slices.SortFunc(all, func(a, b Environment) int { return cmp.Compare(a.Name, b.Name) })
	return all, ctx.Err()
}

// Inspect describes an environment that is in the catalogue or installed. For other names, the
// error has kind NotFound and suggests similar names.
func (s *Store) Inspect(ctx context.Context, name string) (Environment, error) {
	env, err := resolve(name)
	if err != nil {
		return Environment{}, err
	}
	record, err := s.record(env.Name)
	switch {
	case err == nil:
		return record, nil
	case !errors.Is(err, fs.ErrNotExist):
		return Environment{}, err
	case env.Source == SourceOCI:
		return Environment{}, fault.New(fault.NotFound, "inspect environment", name, "%w", ErrNotInstalled).WithHint("pyro env pull %s", name)
	}
	return env, ctx.Err()
}

// records returns all installed environments, unsorted.
func (s *Store) records() ([]Environment, error) {
	files, err := filepath.Glob(filepath.Join(s.root, "names", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Environment
	for _, file := range files {
		record, err := s.readRecord(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, record)
	}
	return all, nil
}

// record returns the installed environment with a name. If it is not installed, the error is
// fs.ErrNotExist.
func (s *Store) record(name string) (Environment, error) { return s.readRecord(s.recordPath(name)) }

func (s *Store) readRecord(path string) (Environment, error) {
	record, err := s.storedRecord(path)
	if err != nil {
		return Environment{}, err
	}
	if _, err := os.Stat(s.contentDir(record.Digest)); err != nil && record.Recipe == nil {
		return Environment{}, err
	}
	record.LastUsedAt = lastUse(s.contentDir(record.Digest))
	return record.Environment, nil
}

func (s *Store) writeRecord(env Environment) error { return s.writeStored(stored{Environment: env}) }

func (s *Store) writeStored(record stored) error {
	path := s.recordPath(record.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(path, text)
}

func (s *Store) recordPath(name string) string {
	return filepath.Join(s.root, "names", fileName(name)+".json")
}

// fileName returns a file name for the name of an environment. For a long name it returns a hash.
func fileName(name string) string {
	escaped := url.PathEscape(name)
	if len(escaped) > 200 {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:])
	}
	return escaped
}

// isDigest reports whether a digest is valid. Callers check digests before they use them in paths.
func isDigest(digest string) bool {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	_, err := hex.DecodeString(sum)
	return ok && err == nil && len(sum) == 2*sha256.Size
}

func exhausted(format string, args ...any) error {
	return fault.Newf(fault.Exhausted, format, args...).WithHint("pyro env prune")
}

// virtualSize is the size of a root disk that machines see, in bytes.
const virtualSize = ext4image.VirtualSize
