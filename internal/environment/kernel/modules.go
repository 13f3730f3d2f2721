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

// Module is one loadable module, uncompressed.
type Module struct {
	Name  string // "virtio_blk", as the kernel calls it, without dashes
	Image []byte
}

// Wanted says which modules to gather.
type Wanted struct {
	Must []string // their lack is an error, unless they are built in
	May  []string
}

// Guest are the modules of a machine: its disks, its link to the agent and its file system, then what later features use.
// crc32c_generic is for ext4, which asks for it while mounting and can't start a loader in the initramfs.
var Guest = Wanted{
	Must: []string{"virtio_mmio", "virtio_blk", "virtio_console", "ext4"},
	May:  []string{"crc32c_generic", "virtio_net", "virtio_rng", "virtio_balloon", "overlay", "vmw_vsock_virtio_transport"},
}

// maxModule bounds one module, uncompressed.
const maxModule = 64 << 20

// Modules gathers the wanted modules and all that they depend on from a module tree such as /lib/modules/6.1.0, in an order in which they can be loaded.
// Dependencies are read from the modules themselves, since a package that was only unpacked has no modules.dep.
func Modules(ctx context.Context, tree string, wanted Wanted) ([]Module, error) {
	g := gathering{ctx: ctx, files: map[string]string{}, builtin: map[string]bool{}, state: map[string]visit{}}
	if err := g.index(tree); err != nil {
		return nil, err
	}
	for _, name := range wanted.Must {
		if err := g.add(name, true); err != nil {
			return nil, err
		}
	}
	for _, name := range wanted.May {
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

type gathering struct {
	ctx     context.Context
	files   map[string]string // by name
	builtin map[string]bool
	state   map[string]visit
	ordered []Module
}

func (g *gathering) index(tree string) error {
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

// nameOf gives the name of the module in a file: the kernel makes no difference between dashes and underscores.
func nameOf(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func (g *gathering) add(name string, must bool) error {
	name = nameOf(name)
	if g.builtin[name] || g.state[name] == added {
		return nil
	}
	if g.state[name] == entered {
		return fault.New(fault.Invalid, "order modules", name, "it depends on itself")
	}
	path, ok := g.files[name]
	if !ok {
		if !must {
			return nil
		}
		return fault.New(fault.Unsupported, "find kernel module", name, "the kernel has it neither built in nor as a module").
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

// dependencies reads what a module says of itself: fields "name=value" that end in zero bytes, of which depends lists names.
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
