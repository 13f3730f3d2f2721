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

// KernelVariable is the environment variable for the path of a kernel image that replaces Debian's.
// Modules for that kernel come from /lib/modules. If no modules exist there, the required drivers
// must be built into the kernel.
const KernelVariable = "PYRO_KERNEL"

// Kernel is a guest kernel in the store.
type Kernel struct {
	Release string // "6.1.0-56-cloud-amd64"
	Path    string // path of the image
	Digest  string // digest of the image and its modules, "sha256:…"
	Origin  string // name of the package, or path of the image
}

// Kernel returns the kernel for machines. It uses the first available of the following:
//  1. The kernel that PYRO_KERNEL specifies.
//  2. Debian's cloud kernel. apt downloads it without installing it.
//  3. The newest kernel of the host.
//
// The store keeps the kernel, so later calls check only a few files. After ForgetKernel, the next
// call fetches the kernel again.
func (s *Store) Kernel(ctx context.Context, report progress.Func) (Kernel, error) {
	chosen, err := chosenKernel()
	if err != nil {
		return Kernel{}, err
	}
	if k, ok := s.knownKernel(chosen); ok {
		return k, nil
	}
	lock, err := takeLock(ctx, s.kernels, ".lock", func() { report.Phase("waiting for another pyro to fetch", "guest kernel") })
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

// KnownKernel is like Kernel, but fetches nothing. If Kernel would fetch, it returns false.
func (s *Store) KnownKernel() (k Kernel, ok bool, err error) {
	chosen, err := chosenKernel()
	if err != nil {
		return Kernel{}, false, err
	}
	k, ok = s.knownKernel(chosen)
	return k, ok, nil
}

// chosenKernel returns the path in PYRO_KERNEL, or "" if PYRO_KERNEL is not set.
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

// ForgetKernel makes the next call of Kernel fetch the newest kernel. It does not remove the old
// kernel's files. Prune removes them.
func (s *Store) ForgetKernel() error {
	err := os.Remove(s.choicePath(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// choice records the kernel to use. There is one record for the default, and one for each value of
// PYRO_KERNEL.
type choice struct {
	Digest string     `json:"digest"`
	Path   string     `json:"path,omitempty"` // value of PYRO_KERNEL, or "" for the default
	Stamp  disk.Stamp `json:"stamp,omitzero"`
}

// kernelInfo is the record of a kernel.
type kernelInfo struct {
	Release string                `json:"release"`
	Digest  string                `json:"digest"`
	Origin  string                `json:"origin"`
	Modules []string              `json:"modules"` // names in load order
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

// knownKernel returns a kernel from the store if it is complete and up to date.
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

// kernelInfo reads the record of a kernel and checks the stamps of its files. If a file has
// changed, it returns an error, because fetching the kernel again is fast.
func (s *Store) kernelInfo(digest string) (kernelInfo, error) {
	dir := s.kernelDir(digest)
	text, err := os.ReadFile(filepath.Join(dir, kernelRecord))
	if err != nil {
		return kernelInfo{}, err
	}
	var info kernelInfo
	if err := json.Unmarshal(text, &info); err != nil || info.Digest != digest || len(info.Stamps) != len(info.Modules)+1 {
		return kernelInfo{}, fault.New(fault.Corrupt, "read kernel", digest, "its record is malformed")
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
	var source kernelSource
	if chosen != "" {
		if c.Stamp, err = disk.StampOf(chosen); err != nil {
			return Kernel{}, err
		}
		source = kernelSource{image: chosen, tree: "/lib/modules", origin: chosen}
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

// storeKernel writes a kernel and its modules to the store.
func (s *Store) storeKernel(ctx context.Context, work *staging, source kernelSource, release string, modules []kernel.Module) (Kernel, error) {
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
	target := s.kernelDir(info.Digest)
	if _, err := s.kernelInfo(info.Digest); err != nil {
		// If the directory exists, it is damaged. The caller holds the kernel lock.
		if err := os.RemoveAll(target); err != nil {
			return Kernel{}, err
		}
		if err := errors.Join(os.Rename(dir, target), durable.Sync(s.kernels)); err != nil {
			return Kernel{}, err
		}
	}
	return Kernel{release, filepath.Join(target, kernelFile), info.Digest, source.origin}, ctx.Err()
}
