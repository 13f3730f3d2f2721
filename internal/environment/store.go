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
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// ErrNotInstalled is the cause of an error about a known environment that is not on this host.
var ErrNotInstalled = errors.New("not installed")

// Store keeps environments and kernels on this host. It is safe for concurrent use, in many processes at once.
type Store struct {
	root    string // of environments
	kernels string
	added   *Store // of images that were made from others here, which have no names

	// What makes things from Debian's packages; tests put others in their place.
	bootstrap     func(ctx context.Context, packages []string, dir string, out io.Writer, report progress.Func, subject string) error
	kernelPackage func(ctx context.Context, dir string, report progress.Func) (string, error)
}

// Open gives the store in the user's folders. It creates nothing until something is pulled.
func Open(d dirs.Dirs) *Store {
	return &Store{root: d.Environments(), kernels: d.Kernels(), added: &Store{root: d.Images()}, bootstrap: debian.Bootstrap, kernelPackage: debian.KernelPackage}
}

// List gives the catalogue and all that is installed, by name.
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

// Inspect describes one environment: one of the catalogue, or an installed one. NotFound for any other, with the nearest names.
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

// records gives all that is installed, in no order.
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

// record gives what name stands for, or fs.ErrNotExist where it is not installed.
func (s *Store) record(name string) (Environment, error) { return s.readRecord(s.recordPath(name)) }

func (s *Store) readRecord(path string) (Environment, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Environment{}, err
	}
	var record Environment
	if json.Unmarshal(text, &record) != nil || !isDigest(record.Digest) || s.recordPath(record.Name) != path {
		return Environment{}, fs.ErrNotExist // a record that can't be read is as good as none: the next pull writes it anew
	}
	if _, err := os.Stat(s.contentDir(record.Digest)); err != nil {
		return Environment{}, err
	}
	return record, nil
}

func (s *Store) writeRecord(env Environment) error {
	path := s.recordPath(env.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(env, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(path, text)
}

func (s *Store) recordPath(name string) string {
	return filepath.Join(s.root, "names", fileName(name)+".json")
}

// fileName makes one of an environment's name. What would be too long for a file system is named by its hash.
func fileName(name string) string {
	escaped := url.PathEscape(name)
	if len(escaped) > 200 {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:])
	}
	return escaped
}

// isDigest guards the way from a record to a folder.
func isDigest(digest string) bool {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	_, err := hex.DecodeString(sum)
	return ok && err == nil && len(sum) == 2*sha256.Size
}

func exhausted(format string, args ...any) error {
	return fault.Newf(fault.Exhausted, format, args...).WithHint("pyro env prune")
}

// virtualSize is what every machine sees of its root.
const virtualSize = ext4image.VirtualSize
