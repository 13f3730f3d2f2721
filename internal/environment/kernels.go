package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/environment/kernel"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// KernelVariable names a kernel image to be used instead of Debian's. Its modules are looked for in /lib/modules; a kernel without any there must have
// built in what a machine needs.
const KernelVariable = "PYRO_KERNEL"

// Kernel is a guest kernel in the store.
type Kernel struct {
	Release string // "6.1.0-56-cloud-amd64"
	Path    string // of the image
	Digest  string // of the image and its modules, "sha256:…"
	Origin  string // where it came from: the name of a package, or a path
}

// Kernel gives the kernel that machines boot: PYRO_KERNEL where that is set, else that of Debian's package for clouds, fetched by apt and not installed, else
// the newest of the host's own. It is fetched once and kept; the second call looks at a few files and no more. ForgetKernel makes the next call fetch again.
func (s *Store) Kernel(ctx context.Context, report progress.Func) (Kernel, error) {
	chosen, err := chosenKernel()
	if err != nil {
		return Kernel{}, err
	}
	if k, ok := s.knownKernel(chosen); ok {
		return k, nil
	}
	lock, err := waitFor(ctx, s.kernels, ".lock", func() { report.Phase("waiting for another pyro that is fetching", "guest kernel") })
	if err != nil {
		return Kernel{}, err
	}
	defer lock.Release()
	if k, ok := s.knownKernel(chosen); ok {
		return k, nil
	}
	k, err := s.importKernel(ctx, chosen, report)
	if fault.KindOf(err) == fault.Exhausted && fault.HintOf(err) == "" {
		return k, &fault.Error{Op: "fetch", Subject: "guest kernel", Err: err, Hint: "pyro env prune"}
	}
	return k, fault.Wrap(err, "fetch", "guest kernel")
}

// KnownKernel gives the kernel that Kernel would give without fetching anything. ok is false where it would.
func (s *Store) KnownKernel() (k Kernel, ok bool, err error) {
	chosen, err := chosenKernel()
	if err != nil {
		return Kernel{}, false, err
	}
	k, ok = s.knownKernel(chosen)
	return k, ok, nil
}

// chosenKernel is the path in PYRO_KERNEL; empty where that is not set.
func chosenKernel() (string, error) {
	path := os.Getenv(KernelVariable)
	if path == "" {
		return "", nil
	}
	chosen, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(chosen); err != nil || !info.Mode().IsRegular() {
		return "", fault.New(fault.Invalid, "read kernel", chosen, "no such file").WithHint("unset %s, or set it to a kernel image", KernelVariable)
	}
	return chosen, nil
}

// ForgetKernel makes the next call of Kernel fetch the newest one. Nothing is removed: that is Prune's work.
func (s *Store) ForgetKernel() error {
	err := os.Remove(s.choicePath(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// choice says which kernel is used: by default, or for one value of PYRO_KERNEL.
type choice struct {
	Digest string     `json:"digest"`
	Path   string     `json:"path,omitempty"` // of PYRO_KERNEL, with how it was then
	Stamp  disk.Stamp `json:"stamp,omitzero"`
}

// kernelInfo is the record beside a kernel.
type kernelInfo struct {
	Release string                `json:"release"`
	Digest  string                `json:"digest"`
	Origin  string                `json:"origin"`
	Modules []string              `json:"modules"` // names, in load order
	Stamps  map[string]disk.Stamp `json:"stamps"`  // of all files
}

func (s *Store) choicePath(chosen string) string {
	if chosen == "" {
		return filepath.Join(s.kernels, "default.json")
	}
	return filepath.Join(s.kernels, "chosen-"+fileName(chosen)+".json")
}

func (s *Store) kernelDir(digest string) string {
	return filepath.Join(s.kernels, strings.TrimPrefix(digest, "sha256:"))
}

// knownKernel gives a kernel that is in the store, whole and up to date.
func (s *Store) knownKernel(chosen string) (Kernel, bool) {
	var c choice
	if text, err := os.ReadFile(s.choicePath(chosen)); err != nil || json.Unmarshal(text, &c) != nil || !isDigest(c.Digest) {
		return Kernel{}, false
	}
	if chosen != "" {
		if now, err := disk.StampOf(chosen); err != nil || now != c.Stamp || c.Path != chosen {
			return Kernel{}, false
		}
	}
	info, err := s.kernelInfo(c.Digest)
	if err != nil {
		return Kernel{}, false
	}
	return Kernel{info.Release, filepath.Join(s.kernelDir(c.Digest), kernelFile), c.Digest, info.Origin}, true
}

const (
	kernelFile   = "vmlinuz"
	kernelRecord = "kernel.json"
)

// kernelInfo reads the record of a kernel and checks that its files are those that were stored. Where one has been touched the kernel counts as
// missing: it is quickly made again.
func (s *Store) kernelInfo(digest string) (kernelInfo, error) {
	dir := s.kernelDir(digest)
	text, err := os.ReadFile(filepath.Join(dir, kernelRecord))
	if err != nil {
		return kernelInfo{}, err
	}
	var info kernelInfo
	if err := json.Unmarshal(text, &info); err != nil || info.Digest != digest || len(info.Stamps) != len(info.Modules)+1 {
		return kernelInfo{}, fault.New(fault.Corrupt, "read kernel", digest, "its record makes no sense")
	}
	for name, then := range info.Stamps {
		if now, err := disk.StampOf(filepath.Join(dir, name)); err != nil || now != then {
			return kernelInfo{}, fault.New(fault.Corrupt, "read kernel", digest, "%s has been changed", name)
		}
	}
	return info, nil
}

func (s *Store) importKernel(ctx context.Context, chosen string, report progress.Func) (Kernel, error) {
	work, err := newStaging(s.kernels)
	if err != nil {
		return Kernel{}, err
	}
	defer work.Close()
	c := choice{Path: chosen}
	var source found
	if chosen != "" {
		if c.Stamp, err = disk.StampOf(chosen); err != nil {
			return Kernel{}, err
		}
		source = found{image: chosen, tree: "/lib/modules", origin: chosen}
	} else if source, err = s.findKernel(ctx, work, report); err != nil {
		return Kernel{}, err
	}
	release, err := kernel.Release(source.image)
	if err != nil {
		return Kernel{}, err
	}
	var modules []kernel.Module
	tree := filepath.Join(source.tree, release)
	if _, err := os.Stat(tree); err == nil || chosen == "" {
		if modules, err = kernel.Modules(ctx, tree, kernel.Guest); err != nil {
			return Kernel{}, err
		}
	}
	k, err := s.storeKernel(ctx, work, source, release, modules)
	if err != nil {
		return Kernel{}, err
	}
	c.Digest = k.Digest
	text, err := json.Marshal(c)
	if err != nil {
		return Kernel{}, err
	}
	return k, durable.Replace(s.choicePath(chosen), text)
}

// storeKernel writes a kernel and its modules into the store.
func (s *Store) storeKernel(ctx context.Context, work *staging, source found, release string, modules []kernel.Module) (Kernel, error) {
	image, err := os.ReadFile(source.image)
	if err != nil {
		return Kernel{}, err
	}
	files := []string{kernelFile}
	contents := [][]byte{image}
	info := kernelInfo{Release: release, Origin: source.origin, Stamps: map[string]disk.Stamp{}}
	for i, m := range modules {
		files, contents = append(files, moduleFile(i, m.Name)), append(contents, m.Image)
		info.Modules = append(info.Modules, m.Name)
	}
	dir := work.path("kernel")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return Kernel{}, err
	}
	hash := sha256.New()
	for i, name := range files {
		fmt.Fprintf(hash, "%s %d\n", name, len(contents[i]))
		hash.Write(contents[i])
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, contents[i], 0o444), durable.Sync(path)); err != nil {
			return Kernel{}, err
		}
		if info.Stamps[name], err = disk.StampOf(path); err != nil {
			return Kernel{}, err
		}
	}
	info.Digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	text, err := json.Marshal(info)
	if err != nil {
		return Kernel{}, err
	}
	if err := durable.Replace(filepath.Join(dir, kernelRecord), text); err != nil {
		return Kernel{}, err
	}
	place := s.kernelDir(info.Digest)
	if _, err := s.kernelInfo(info.Digest); err != nil {
		// What is there, if anything, has been changed. The lock of kernels is held.
		if err := os.RemoveAll(place); err != nil {
			return Kernel{}, err
		}
		if err := errors.Join(os.Rename(dir, place), durable.Sync(s.kernels)); err != nil {
			return Kernel{}, err
		}
	}
	return Kernel{release, filepath.Join(place, kernelFile), info.Digest, source.origin}, ctx.Err()
}
