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
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/durable"
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

// manifest is the name of the file that describes all other files of a template.
const manifest = "template.json"

type record struct {
	Key   Key                   `json:"key"`
	Files map[string]fileRecord `json:"files"`
}

type fileRecord struct {
	Digest string     `json:"digest"`
	Stamp  disk.Stamp `json:"stamp"`
	Folder bool       `json:"folder,omitempty"` // the path is a folder, Digest comes from [stampFolder], and Stamp is unused
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

// verify compares the files in dir with the manifest. It reads a file only if the file's stamp has
// changed. It ignores the ctime, because saved machines make and remove hard links to the files.
func verify(dir string, key Key) error {
	r, err := read(dir)
	if err != nil {
		return err
	}
	if r.Key != key {
		return errors.New("it belongs to another template")
	}
	if len(r.Files) == 0 {
		return errors.New("it names no files")
	}
	restamp := false
	for file, want := range r.Files {
		path := filepath.Join(dir, filepath.Base(file))
		if want.Folder {
			digest, err := stampFolder(path)
			if err == nil && digest != want.Digest {
				err = errors.New("the content of folder " + file + " has changed")
			}
			if err != nil {
				return err
			}
			continue
		}
		stamp, err := disk.StampOf(path)
		if err != nil {
			return err
		}
		if want.Stamp.SameContent(stamp) {
			continue
		}
		if stamp.Size != want.Stamp.Size {
			return errors.New(file + " differs in size from the saved file")
		}
		digest, err := disk.Hash(path, nil)
		if err != nil {
			return err
		}
		if digest != want.Digest {
			return errors.New(file + " differs from the saved file")
		}
		r.Files[file] = fileRecord{Digest: digest, Stamp: stamp}
		restamp = true
	}
	if restamp {
		return write(dir, r)
	}
	return nil
}

func read(dir string) (r record, err error) {
	b, err := os.ReadFile(filepath.Join(dir, manifest))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// write replaces the manifest. Several processes can do so at the same time.
func write(dir string, r record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replacement{Temp: manifest + ".part-*", Unflushed: true}.Write(filepath.Join(dir, manifest), b)
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

// seal writes the manifest that describes the files in dir.
func seal(dir string, key Key) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	r := record{Key: key, Files: map[string]fileRecord{}}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			digest, err := stampFolder(path)
			if err != nil {
				return err
			}
			r.Files[e.Name()] = fileRecord{Digest: digest, Folder: true}
			continue
		}
		digest, err := disk.Hash(path, nil)
		if err != nil {
			return err
		}
		stamp, err := disk.StampOf(path)
		if err != nil {
			return err
		}
		r.Files[e.Name()] = fileRecord{Digest: digest, Stamp: stamp}
	}
	return write(dir, r)
}

// Reject removes a template that does not work. Machines that use it have its files open.
// Idempotent.
func (s Store) Reject(key Key) error {
	if _, err := os.Stat(filepath.Join(s.Dir, key.Hash())); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	building, err := flock.Try(filepath.Join(s.Dir, key.Hash()+".lock"), flock.Exclusive)
	if err != nil {
		return ignoreHeld(err) // another process is already making the template again
	}
	defer building.Release()
	return fault.Wrap(os.RemoveAll(filepath.Join(s.Dir, key.Hash())), "remove template", key.Hash())
}

// Retire removes a template. It waits for processes that make or use the template, until ctx is
// done. Idempotent.
func (s Store) Retire(ctx context.Context, key Key) error {
	name := key.Hash()
	dir := filepath.Join(s.Dir, name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	building, err := flock.Take(ctx, filepath.Join(s.Dir, name+".lock"), flock.Exclusive, nil)
	if err != nil {
		return fault.Wrap(err, "remove template", name)
	}
	defer building.Release()
	using, err := flock.TakeFolder(ctx, dir, flock.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, "remove template", name)
	}
	defer using.Release()
	return fault.Wrap(os.RemoveAll(dir), "remove template", name)
}

// Detach removes the template for a key, so that the next Build makes a new one. Machines that use
// the old template still have all of its files. Prune removes these files later. Idempotent.
func (s Store) Detach(ctx context.Context, key Key) error {
	name := key.Hash()
	dir := filepath.Join(s.Dir, name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	building, err := flock.Take(ctx, filepath.Join(s.Dir, name+".lock"), flock.Exclusive, nil)
	if err != nil {
		return fault.Wrap(err, "remove template", name)
	}
	defer building.Release()
	using, err := flock.TryFolder(dir, flock.Exclusive)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, flock.ErrHeld):
		err = os.Rename(dir, dir+detached+rand.Text()) // the rename does not affect the locks
	case err == nil:
		defer using.Release()
		err = os.RemoveAll(dir)
	}
	return fault.Wrap(err, "remove template", name)
}

// detached is part of the names of templates that Detach has renamed because they were in use.
const detached = ".old-"

// sweepDetached removes the detached templates that are no longer in use.
func (s Store) sweepDetached() error {
	old, err := filepath.Glob(filepath.Join(s.Dir, "*"+detached+"*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		using, err := flock.TryFolder(dir, flock.Exclusive)
		if err != nil {
			continue // the template is in use, or another process has removed it
		}
		err = os.RemoveAll(dir)
		using.Release()
		if err != nil {
			return fault.Wrap(err, "remove template", dir)
		}
	}
	return nil
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

func (r record) size(dir string) (total int64) {
	for file, is := range r.Files {
		path := filepath.Join(dir, filepath.Base(file))
		n, _ := disk.Allocated(path)
		if is.Folder {
			n, _, _ = tree.Size(context.Background(), path)
		}
		total += n
	}
	return total
}

// Prune removes templates for which the function keep returns false, unless a machine uses them. It
// also removes the leftovers of interrupted builds. It returns the removed templates.
func (s Store) Prune(keep func(Info) bool) ([]Info, error) {
	infos, err := s.List()
	if err != nil {
		return nil, err
	}
	var removed []Info
	for _, info := range infos {
		if keep(info) {
			continue
		}
		gone, err := s.remove(info.Name)
		if err != nil {
			return removed, fault.Wrap(err, "remove template", info.Name)
		}
		if gone {
			removed = append(removed, info)
		}
	}
	return removed, errors.Join(s.sweep(), s.sweepDetached())
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

// remove removes a template unless a process uses or makes it. A process must have the build lock
// of a template to change the template's folder.
func (s Store) remove(name string) (bool, error) {
	building, err := flock.Try(filepath.Join(s.Dir, name+".lock"), flock.Exclusive)
	if err != nil {
		return false, ignoreHeld(err)
	}
	defer building.Release()
	using, err := flock.TryFolder(filepath.Join(s.Dir, name), flock.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // another process has already removed the template
	}
	if err != nil {
		return false, ignoreHeld(err)
	}
	defer using.Release()
	return true, os.RemoveAll(filepath.Join(s.Dir, name))
}

func ignoreHeld(err error) error {
	if errors.Is(err, flock.ErrHeld) {
		return nil
	}
	return err
}

// sweep removes the leftovers of crashed builds.
func (s Store) sweep() error {
	locks, err := filepath.Glob(filepath.Join(s.Dir, "*.lock"))
	if err != nil {
		return err
	}
	for _, path := range locks {
		lock, err := flock.Try(path, flock.Exclusive)
		if err != nil {
			continue // the build is still running
		}
		err = errors.Join(os.RemoveAll(strings.TrimSuffix(path, ".lock")+".part"), os.Remove(path))
		lock.Release()
		if err != nil {
			return fault.Wrap(err, "remove unfinished template", path)
		}
	}
	return nil
}
