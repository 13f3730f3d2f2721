package kernel

import (
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Module is a loadable kernel module. Its image is not compressed.
type Module struct {
	Name  string // name in the kernel, with underscores, such as "virtio_blk"
	Image []byte
}

// Wanted lists the modules that Modules collects.
type Wanted struct {
	Required []string // It is an error if a module is neither built in nor available.
	Optional []string
}

// Guest lists the modules for machines: disks, the link to the agent, the file system, and optional
// features. ext4 requests crc32c_generic during a mount. The list contains that module, because the
// initramfs has no module loader.
var Guest = Wanted{
	Required: []string{"virtio_mmio", "virtio_blk", "virtio_console", "ext4"},
	Optional: []string{"crc32c_generic", "virtio_net", "virtio_rng", "virtio_balloon", "overlay", "vmw_vsock_virtio_transport"},
}

// maxModule limits the size of an uncompressed module, in bytes.
const maxModule = 64 << 20

// Modules returns the wanted modules and their dependencies, in load order. The modules come from a
// module tree such as /lib/modules/6.1.0. Modules reads the dependencies from the module files,
// because an unpacked package has no modules.dep.
func Modules(ctx context.Context, tree string, wanted Wanted) ([]Module, error) {
	g := collector{ctx: ctx, files: map[string]string{}, builtin: map[string]bool{}, state: map[string]visit{}}
	if err := g.index(tree); err != nil {
		return nil, err
	}
	for _, name := range wanted.Required {
		if err := g.add(name, true); err != nil {
			return nil, err
		}
	}
	for _, name := range wanted.Optional {
		if err := g.add(name, false); err != nil {
			return nil, err
		}
	}
	return g.ordered, nil
}

type visit int

const (
	entered visit = iota + 1
	added
)

type collector struct {
	ctx     context.Context
	files   map[string]string // paths by module name
	builtin map[string]bool
	state   map[string]visit
	ordered []Module
}

func (g *collector) index(tree string) error {
	list, err := os.ReadFile(filepath.Join(tree, "modules.builtin"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, path := range strings.Fields(string(list)) {
		g.builtin[nameOf(path)] = true
	}
	return filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && strings.Contains(entry.Name(), ".ko") {
			g.files[nameOf(path)] = path
		}
		return g.ctx.Err()
	})
}

// nameOf returns the name of the module in a file. The kernel treats dashes as underscores.
func nameOf(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func (g *collector) add(name string, must bool) error {
	name = nameOf(name)
	if g.builtin[name] || g.state[name] == added {
		return nil
	}
	if g.state[name] == entered {
		return fault.New(fault.Invalid, "order modules", name, "it has a cyclic dependency")
	}
	path, ok := g.files[name]
	if !ok {
		if !must {
			return nil
		}
		return fault.New(fault.Unsupported, "find kernel module", name, "the kernel does not have it").
			WithHint("set PYRO_KERNEL to a kernel with virtio-mmio, virtio-blk, virtio-console and ext4")
	}
	g.state[name] = entered
	image, err := readModule(g.ctx, path)
	if err != nil {
		return err
	}
	needs, err := dependencies(image)
	if err != nil {
		return &fault.Error{Op: "read kernel module", Subject: path, Kind: fault.Corrupt, Err: err}
	}
	for _, need := range needs {
		if err := g.add(need, true); err != nil {
			return err
		}
	}
	g.state[name] = added
	g.ordered = append(g.ordered, Module{name, image})
	return nil
}

// dependencies returns the names in the field "depends=" of the section .modinfo. The fields of
// this section are separated by NUL.
func dependencies(image []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("it has no .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

func readModule(ctx context.Context, path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var in io.Reader = file
	switch filepath.Ext(path) {
	case ".gz":
		if in, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	case ".zst":
		decoder, err := zstd.NewReader(file, zstd.WithDecoderMaxMemory(maxModule), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer decoder.Close()
		in = decoder
	case ".xz":
		return readXZ(ctx, file)
	}
	return readBounded(in)
}

func readBounded(in io.Reader) ([]byte, error) {
	image, err := io.ReadAll(io.LimitReader(in, maxModule+1))
	if err == nil && len(image) > maxModule {
		err = fault.Newf(fault.Exhausted, "a kernel module is larger than %d MiB", maxModule>>20)
	}
	return image, err
}

func readXZ(ctx context.Context, file *os.File) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "xz", "-dc")
	cmd.Stdin = file
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, &fault.Error{Op: "unpack kernel module", Subject: file.Name(), Kind: fault.Unavailable, Err: err, Hint: "sudo apt-get install xz-utils"}
	}
	image, readErr := readBounded(out)
	if readErr != nil {
		cancel()
	}
	if err := cmd.Wait(); readErr == nil && err != nil {
		readErr = &fault.Error{Op: "unpack kernel module", Subject: file.Name(), Kind: fault.Corrupt, Err: err}
	}
	return image, readErr
}
