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

// Initramfs is what a kernel boots into: the agent and the modules that it loads.
type Initramfs struct {
	Path   string
	Digest string // of all that it was made from, "sha256:…"
}

// initramfsFormat is raised when the same parts come to be put together in another way.
const initramfsFormat = 1

// Agent is the program that becomes /init. Its digest stands for its content, which is read only where an initramfs is made.
type Agent interface {
	Digest() string
	Bytes() ([]byte, error)
}

// Initramfs gives the initramfs of a kernel and an agent, a static program. It is made once and kept.
func (s *Store) Initramfs(ctx context.Context, k Kernel, agent Agent) (Initramfs, error) {
	if !isDigest(k.Digest) {
		return Initramfs{}, fault.New(fault.Internal, "make initramfs", k.Release, "it needs a kernel of the store")
	}
	result, ok := s.KnownInitramfs(k, agent)
	if ok {
		return result, nil
	}
	lock, err := waitFor(ctx, s.kernels, ".lock", nil)
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

// KnownInitramfs gives the initramfs that Initramfs would give. ok is false where that would make it.
func (s *Store) KnownInitramfs(k Kernel, agent Agent) (i Initramfs, ok bool) {
	sum := sha256.Sum256(fmt.Appendf(nil, "pyro initramfs %d\n%s\n%s\n", initramfsFormat, k.Digest, agent.Digest()))
	key := hex.EncodeToString(sum[:])
	i = Initramfs{filepath.Join(s.kernels, initramfsPrefix+key), "sha256:" + key}
	return i, s.knownInitramfs(i.Path, k.Digest)
}

const initramfsPrefix = "initramfs-"

// initramfsInfo is the record beside an initramfs. Its own time of change is that of the last use.
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
	_ = os.Chtimes(path+".json", used, used) // for Prune; a cache that can't be written is not pruned either
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
	now, err := disk.StampOf(path) // renaming a file changes its ctime
	if err != nil {
		return err
	}
	text, err := json.Marshal(initramfsInfo{k.Digest, now})
	if err != nil {
		return err
	}
	return durable.Replace(path+".json", text)
}
