// Package template stores files that a driver makes once, so that its machines start fast. For QEMU
// a template is a saved machine. For gVisor it is an environment's file system in another format.
//
// A template is a folder. Its name is the hash of the template's [Key], which contains everything
// that affects the template. A driver makes a template only once, under a lock. It makes the
// template in another folder and then renames that folder. After that the template is only read.
// Machines that use a template have a shared lock on it.
package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Key contains everything that affects a template. If any field differs, the template is a
// different one.
type Key struct {
	Form      string `json:"form"`      // Kind and version of the content, chosen by the driver.
	QEMU      string `json:"qemu"`      // Version and identity of the program.
	Arguments string `json:"arguments"` // Arguments that shape the machine, then a line with the kernel's arguments.
	Host      string `json:"host"`      // Processor, if the machine sees it. Empty under emulation.
	Kernel    string `json:"kernel"`    // Digest.
	Initramfs string `json:"initramfs"` // Digest.
	Root      string `json:"root"`      // Digest of the environment.
}

// Hash returns the name of the template's folder.
func (k Key) Hash() string {
	b, err := json.Marshal(k)
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Store is the folder that contains all templates. Many processes can use it at the same time.
type Store struct{ Dir string }

// Template is a template that is in use. It is not removed before Close.
type Template struct {
	Dir  string
	lock *flock.Lock
}

// Path returns the path of a file in the template.
func (t *Template) Path(file string) string { return filepath.Join(t.Dir, file) }

// Digest returns the digest of a file in the template.
func (t *Template) Digest(file string) (string, error) {
	r, err := read(t.Dir)
	if err == nil && r.Files[file].Digest == "" {
		err = errors.New("it has no such file")
	}
	return r.Files[file].Digest, fault.Wrap(err, "check template", filepath.Base(t.Dir))
}

// Close marks the template as unused. Idempotent.
func (t *Template) Close() { t.lock.Release() }

// Open returns the template for a key. The error has kind NotFound if there is no such template,
// and Corrupt if its files have changed. In both cases call Build.
func (s Store) Open(key Key) (*Template, error) {
	name := key.Hash()
	dir := filepath.Join(s.Dir, name)
	lock, err := flock.TryFolder(dir, flock.Shared)
	// ErrHeld means that another process is removing the template right now.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, flock.ErrHeld) {
		return nil, fault.New(fault.NotFound, "open template", name, "no such template")
	}
	if err != nil {
		return nil, fault.Wrap(err, "open template", name)
	}
	if err := verify(dir, key); err != nil {
		lock.Release()
		return nil, &fault.Error{Op: "open template", Subject: name, Kind: fault.Corrupt, Err: err}
	}
	return &Template{Dir: dir, lock: lock}, nil
}

// Build creates the template for a key and opens it. The function fill writes the files to an empty
// folder. If another process is making the template, Build waits for that process. It then calls
// the function waiting once, unless waiting is nil. If fill fails or is interrupted, no files are
// left.
func (s Store) Build(ctx context.Context, key Key, waiting func(), fill func(ctx context.Context, dir string) error) (*Template, error) {
	name := key.Hash()
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fault.Wrap(err, "make folder of templates", s.Dir)
	}
	lock, err := flock.Take(ctx, filepath.Join(s.Dir, name+".lock"), flock.Exclusive, waiting)
	if err != nil {
		return nil, fault.Wrap(err, "wait for template", name)
	}
	defer lock.Release()
	if t, err := s.Open(key); err == nil {
		return t, nil
	}
	// The old template is damaged. Machines that use it have its files open.
	if err := os.RemoveAll(filepath.Join(s.Dir, name)); err != nil {
		return nil, fault.Wrap(err, "remove broken template", name)
	}
	staging := filepath.Join(s.Dir, name+".part")
	if err := errors.Join(os.RemoveAll(staging), os.Mkdir(staging, 0o700)); err != nil {
		return nil, fault.Wrap(err, "build template", name)
	}
	defer os.RemoveAll(staging)
	if err := fill(ctx, staging); err != nil {
		return nil, fault.Wrap(err, "build template", name)
	}
	if err := seal(staging, key); err != nil {
		return nil, fault.Wrap(err, "build template", name)
	}
	if err := os.Rename(staging, filepath.Join(s.Dir, name)); err != nil {
		return nil, fault.Wrap(err, "build template", name)
	}
	return s.Open(key)
}

// Info describes a template in a list.
type Info struct {
	Name      string
	Key       Key
	SizeBytes int64 // space that is allocated on the disk
}

// List lists all complete templates.
func (s Store) List() ([]Info, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, "list templates", s.Dir)
	}
	var infos []Info
	for _, e := range entries {
		if !e.IsDir() || strings.Contains(e.Name(), ".") {
			continue
		}
		var r record
		b, err := os.ReadFile(filepath.Join(s.Dir, e.Name(), manifest))
		if err != nil || json.Unmarshal(b, &r) != nil {
			continue
		}
		infos = append(infos, Info{e.Name(), r.Key, r.size(filepath.Join(s.Dir, e.Name()))})
	}
	return infos, nil
}

// InUse reports whether a process uses or makes a template.
func (s Store) InUse(name string) (bool, error) {
	for _, path := range []string{filepath.Join(s.Dir, name+".lock"), filepath.Join(s.Dir, name)} {
		if held, err := flock.InUse(path); held || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return held, err
		}
	}
	return false, nil
}
