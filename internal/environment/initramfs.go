package environment

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/environment/kernel"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Initramfs is the initial root of a machine. It contains the agent, and the kernel modules that
// the agent loads.
type Initramfs struct {
	Path   string
	Digest string // digest of all inputs, "sha256:…"
}

// initramfsFormat must be incremented if the same inputs result in a different initramfs.
const initramfsFormat = 1

// Agent is the program for /init. The digest identifies the program. The store calls Bytes only to
// build an initramfs.
type Agent interface {
	Digest() string
	Bytes() ([]byte, error)
}

// Initramfs returns the initramfs for a kernel and an agent. The agent must be a static program.
// The store builds each initramfs once and keeps it.
func (s *Store) Initramfs(ctx context.Context, k Kernel, agent Agent) (Initramfs, error) {
	if !isDigest(k.Digest) {
		return Initramfs{}, fault.New(fault.Internal, "make initramfs", k.Release, "the kernel is not from the store")
	}
	result, ok := s.KnownInitramfs(k, agent)
	if ok {
		return result, nil
	}
	lock, err := takeLock(ctx, s.kernels, ".lock", nil)
	if err != nil {
		return Initramfs{}, err
	}
	defer lock.Release()
	if s.knownInitramfs(result.Path, k.Digest) {
		return result, nil
	}
	program, err := agent.Bytes()
	if err == nil {
		err = s.makeInitramfs(k, program, result.Path)
	}
	return result, fault.Wrap(err, "make initramfs", k.Release)
}

// KnownInitramfs is like Initramfs, but does not build. If Initramfs would build, it returns false.
func (s *Store) KnownInitramfs(k Kernel, agent Agent) (i Initramfs, ok bool) {
	sum := sha256.Sum256(fmt.Appendf(nil, "pyro initramfs %d\n%s\n%s\n", initramfsFormat, k.Digest, agent.Digest()))
	key := hex.EncodeToString(sum[:])
	i = Initramfs{filepath.Join(s.kernels, initramfsPrefix+key), "sha256:" + key}
	return i, s.knownInitramfs(i.Path, k.Digest)
}

const initramfsPrefix = "initramfs-"

// initramfsInfo is the record of an initramfs. The mtime of the record file is the time of last
// use.
type initramfsInfo struct {
	Kernel string     `json:"kernel"`
	Stamp  disk.Stamp `json:"stamp"`
}

func (s *Store) knownInitramfs(path, kernelDigest string) bool {
	var info initramfsInfo
	text, err := os.ReadFile(path + ".json")
	if err != nil || json.Unmarshal(text, &info) != nil || info.Kernel != kernelDigest {
		return false
	}
	now, err := disk.StampOf(path)
	if err != nil || now != info.Stamp {
		return false
	}
	used := time.Now()
	_ = os.Chtimes(path+".json", used, used) // The last use, for Prune. It can't be recorded in a read-only cache, but there Prune can't remove anything either.
	return true
}

func (s *Store) makeInitramfs(k Kernel, agent []byte, path string) error {
	info, err := s.kernelInfo(k.Digest)
	if err != nil {
		return err
	}
	modules := make([]kernel.Module, len(info.Modules))
	for i, name := range info.Modules {
		modules[i].Name = name
		if modules[i].Image, err = os.ReadFile(filepath.Join(s.kernelDir(k.Digest), moduleFile(i, name))); err != nil {
			return err
		}
	}
	work, err := newStaging(s.kernels)
	if err != nil {
		return err
	}
	defer work.Close()
	file, err := os.OpenFile(work.path("initramfs"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	err = kernel.WriteInitramfs(buffered, agent, modules)
	if err = errors.Join(err, buffered.Flush(), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(work.path("initramfs"), path); err != nil {
		return err
	}
	now, err := disk.StampOf(path) // The rename has changed the ctime.
	if err != nil {
		return err
	}
	text, err := json.Marshal(initramfsInfo{k.Digest, now})
	if err != nil {
		return err
	}
	return durable.Replace(path+".json", text)
}
