// Package template keeps what a driver makes once so that its machines start fast: for QEMU a started machine that others are restored from, for gVisor the
// environment's root file system in the form that it reads.
//
// A template is a folder of files, whichever its driver has put there. It is found by a [Key], a hash of all that it depends on, so a template of anything
// else is never found. It is made once, under a lock, in a folder beside its place, and renamed into it; from then on it is only read. A machine that uses it
// holds a shared lock on it.
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

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Key is all that a template depends on. Any difference makes another template.
type Key struct {
	Form      string `json:"form"`      // what it holds, and in which version: the driver's word
	QEMU      string `json:"qemu"`      // version and identity of the program
	Arguments string `json:"arguments"` // of its command line that shape the machine, separated by spaces, and in a second line the kernel's
	Host      string `json:"host"`      // the processor, where the machine sees it; empty under emulation
	Kernel    string `json:"kernel"`    // digest
	Initramfs string `json:"initramfs"` // digest
	Root      string `json:"root"`      // digest of the environment
}

// Hash names the template.
func (k Key) Hash() string {
	b, err := json.Marshal(k)
	if err != nil {
		panic(err) // strings always marshal
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// manifest is the file that describes the others.
const manifest = "template.json"

type record struct {
	Key   Key                   `json:"key"`
	Files map[string]fileRecord `json:"files"`
}

type fileRecord struct {
	Digest string     `json:"digest"`
	Stamp  disk.Stamp `json:"stamp"`
}

// Store is the folder of all templates. It is safe for use by many processes at once.
type Store struct{ Dir string }

// Template is one template in use. It is not removed before it is closed.
type Template struct {
	Dir  string
	lock *flock.Lock
}

// Path is the path of one of its files.
func (t *Template) Path(file string) string { return filepath.Join(t.Dir, file) }

// Digest is that of one of its files.
func (t *Template) Digest(file string) (string, error) {
	r, err := read(t.Dir)
	if err == nil && r.Files[file].Digest == "" {
		err = errors.New("it has no such file")
	}
	return r.Files[file].Digest, fault.Wrap(err, "look into template", filepath.Base(t.Dir))
}

// Close ends the use. Idempotent.
func (t *Template) Close() { t.lock.Release() }

// Open gives the template for a key. Kind NotFound: there is none. Kind Corrupt: there is one whose files are no longer what was saved.
// In both cases the next step is Build.
func (s Store) Open(key Key) (*Template, error) {
	name := key.Hash()
	dir := filepath.Join(s.Dir, name)
	lock, err := flock.TryFolder(dir, flock.Shared)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, flock.ErrHeld) { // held: it is being removed
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

// verify tells whether the files in dir are what was saved. It looks at the stamps first, and reads a file only when its stamp has changed. Saved machines give files of
// templates other names, each of which comes and goes: that tells nothing.
func verify(dir string, key Key) error {
	r, err := read(dir)
	if err != nil {
		return err
	}
	if r.Key != key {
		return errors.New("it was made for something else")
	}
	if len(r.Files) == 0 {
		return errors.New("it names no files")
	}
	restamp := false
	for file, want := range r.Files {
		path := filepath.Join(dir, filepath.Base(file))
		stamp, err := disk.StampOf(path)
		if err != nil {
			return err
		}
		if want.Stamp.SameContent(stamp) {
			continue
		}
		if stamp.Size != want.Stamp.Size {
			return errors.New(file + " has another size than was saved")
		}
		digest, err := disk.Hash(path, nil)
		if err != nil {
			return err
		}
		if digest != want.Digest {
			return errors.New(file + " is not what was saved")
		}
		r.Files[file] = fileRecord{digest, stamp}
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

// write replaces the description. Several may do so at once.
func write(dir string, r record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(dir, manifest+".part-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = part.Write(b)
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), filepath.Join(dir, manifest))
}

// Build makes the template for a key by calling fill with an empty folder to put the files into, and opens it. When somebody else is making the same
// template it waits for theirs; waiting, which may be nil, is then called once. A failed or interrupted fill leaves nothing behind.
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
	// What is left under the name is broken. Machines that use it keep their files open.
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

// seal describes the files in dir.
func seal(dir string, key Key) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	r := record{Key: key, Files: map[string]fileRecord{}}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		digest, err := disk.Hash(path, nil)
		if err != nil {
			return err
		}
		stamp, err := disk.StampOf(path)
		if err != nil {
			return err
		}
		r.Files[e.Name()] = fileRecord{digest, stamp}
	}
	return write(dir, r)
}

// Reject removes a template that proved useless. Machines that use it keep their files open. Idempotent.
func (s Store) Reject(key Key) error {
	if _, err := os.Stat(filepath.Join(s.Dir, key.Hash())); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	building, err := flock.Try(filepath.Join(s.Dir, key.Hash()+".lock"), flock.Exclusive)
	if err != nil {
		return ignoreHeld(err) // somebody is making it again already
	}
	defer building.Release()
	return fault.Wrap(os.RemoveAll(filepath.Join(s.Dir, key.Hash())), "remove template", key.Hash())
}

// Retire removes a template once nobody is opening or using it, which it waits for until ctx ends. Idempotent.
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

// Info describes a template for those who list them.
type Info struct {
	Name      string
	Key       Key
	SizeBytes int64 // allocated on disk
}

// List gives all whole templates, and those being made are left out.
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
	for file := range r.Files {
		n, _ := disk.Allocated(filepath.Join(dir, filepath.Base(file)))
		total += n
	}
	return total
}

// Prune removes the templates that keep does not want and that no machine uses, and what interrupted builds left. It gives what was removed.
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
	return removed, s.sweep()
}

// remove removes a template unless it is in use or being built: every change to a template's folder is made under its builder's lock.
func (s Store) remove(name string) (bool, error) {
	building, err := flock.Try(filepath.Join(s.Dir, name+".lock"), flock.Exclusive)
	if err != nil {
		return false, ignoreHeld(err)
	}
	defer building.Release()
	using, err := flock.TryFolder(filepath.Join(s.Dir, name), flock.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // another prune was faster
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

// sweep removes what builders that died left behind.
func (s Store) sweep() error {
	locks, err := filepath.Glob(filepath.Join(s.Dir, "*.lock"))
	if err != nil {
		return err
	}
	for _, path := range locks {
		lock, err := flock.Try(path, flock.Exclusive)
		if err != nil {
			continue // being built
		}
		err = errors.Join(os.RemoveAll(strings.TrimSuffix(path, ".lock")+".part"), os.Remove(path))
		lock.Release()
		if err != nil {
			return fault.Wrap(err, "remove unfinished template", path)
		}
	}
	return nil
}
