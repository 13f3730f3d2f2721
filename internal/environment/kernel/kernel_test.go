package kernel

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// module returns a minimal ELF file with the metadata of a kernel module.
func module(depends string) []byte {
	info := "license=GPL\x00depends=" + depends + "\x00name=x\x00"
	names := "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(header.Ident[:], "\x7fELF\x02\x01\x01")
	header.Shoff = uint64(64 + len(info) + len(names))
	binary.Write(&b, binary.LittleEndian, header)
	b.WriteString(info + names)
	for _, s := range []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: 64, Size: uint64(len(info))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(64 + len(info)), Size: uint64(len(names))},
	} {
		binary.Write(&b, binary.LittleEndian, s)
	}
	return b.Bytes()
}

func tree(t *testing.T, modules map[string][]byte, builtin string) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range modules {
		path = filepath.Join(dir, "kernel", path)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "modules.builtin"), []byte(builtin), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestModulesComeInLoadOrder(t *testing.T) {
	var gz, zst bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write(module("mbcache,jbd2"))
	w.Close()
	z, _ := zstd.NewWriter(&zst)
	z.Write(module(""))
	z.Close()
	dir := tree(t, map[string][]byte{
		"fs/ext4.ko.gz":              gz.Bytes(),
		"fs/jbd2.ko":                 module("crc_builtin"),
		"fs/mbcache.ko.zst":          zst.Bytes(),
		"drivers/virtio/virtio.ko":   module("virtio_ring"),
		"drivers/virtio-ring.ko":     module(""),
		"drivers/char/virtio-rng.ko": module("virtio,virtio_ring"),
	}, "kernel/lib/crc-builtin.ko\nkernel/drivers/virtio_mmio.ko\n")
	got, err := Modules(t.Context(), dir, Wanted{Required: []string{"virtio_mmio", "ext4"}, Optional: []string{"virtio-rng", "not_there"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range got {
		names = append(names, m.Name)
		if !bytes.HasPrefix(m.Image, []byte("\x7fELF")) {
			t.Errorf("%s is not unpacked", m.Name)
		}
	}
	if want := []string{"mbcache", "jbd2", "ext4", "virtio_ring", "virtio", "virtio_rng"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestXZ(t *testing.T) {
	testenv.NeedsTool(t, "xz")
	path := filepath.Join(t.TempDir(), "m.ko")
	os.WriteFile(path, module("a"), 0o644)
	if out, err := exec.Command("xz", path).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if got, err := readModule(t.Context(), path+".xz"); err != nil || !bytes.Equal(got, module("a")) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	os.WriteFile(path+".xz", []byte("nothing that xz knows"), 0o644)
	if _, err := readModule(t.Context(), path+".xz"); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("got %v", err)
	}
}

func TestInvalidModules(t *testing.T) {
	for name, c := range map[string]struct {
		modules map[string][]byte
		kind    fault.Kind
	}{
		"a must is missing":       {map[string][]byte{}, fault.Unsupported},
		"a dependency is missing": {map[string][]byte{"ext4.ko": module("jbd2")}, fault.Unsupported},
		"a circle":                {map[string][]byte{"ext4.ko": module("jbd2"), "jbd2.ko": module("ext4")}, fault.Invalid},
		"no module":               {map[string][]byte{"ext4.ko": []byte("text")}, fault.Corrupt},
		"a bomb":                  {map[string][]byte{"ext4.ko.gz": bomb(t)}, fault.Exhausted},
	} {
		if _, err := Modules(t.Context(), tree(t, c.modules, ""), Wanted{Required: []string{"ext4"}}); fault.KindOf(err) != c.kind {
			t.Errorf("%s: kind %q, want %q: %v", name, fault.KindOf(err), c.kind, err)
		}
	}
}

func bomb(t *testing.T) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return bytes.Repeat(b.Bytes(), maxModule>>20+1) // Concatenated streams unpack to one file.
}

func bzImage(release string) []byte {
	image := make([]byte, 0x4000)
	copy(image[headerMagicAt:], "HdrS")
	binary.LittleEndian.PutUint16(image[versionOffsetAt:], 0x3000-0x200)
	copy(image[0x3000:], release+" (build@host) #1 SMP")
	return image
}

func TestRelease(t *testing.T) {
	banner := append(make([]byte, 1<<20-5), "Linux version %s and then Linux version 6.6.1-arm64 (gcc)"...)
	for name, c := range map[string]struct {
		image []byte
		want  string
	}{
		"bzImage":           {bzImage("6.1.0-56-cloud-amd64"), "6.1.0-56-cloud-amd64"},
		"with plus":         {bzImage("6.12.117+deb12-cloud-amd64"), "6.12.117+deb12-cloud-amd64"},
		"uncompressed":      {banner, "6.6.1-arm64"},
		"climbing":          {bzImage("../../etc"), ""},
		"no name":           {bzImage(""), ""},
		"cut":               {bzImage("6.1")[:0x1000], ""},
		"something else":    {make([]byte, 5000), ""},
		"nothing":           {nil, ""},
		"a page of letters": {bytes.Repeat([]byte("Linux version "), 1000), ""},
	} {
		got, err := readRelease(bytes.NewReader(c.image))
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := Release(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestInitramfsIsReadByCpio(t *testing.T) {
	cpio := testenv.NeedsTool(t, "cpio")
	modules := []Module{{"virtio", []byte("v")}, {"ext4", bytes.Repeat([]byte("e"), 1001)}}
	agent := bytes.Repeat([]byte("agent"), 12345)
	var b, again bytes.Buffer
	if err := errors.Join(WriteInitramfs(&b, agent, modules), WriteInitramfs(&again, agent, modules)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("two of the same differ")
	}
	list := exec.Command(cpio, "-t", "--quiet")
	list.Stdin = bytes.NewReader(b.Bytes())
	out, err := list.CombinedOutput()
	if want := "dev\nlib\nlib/modules\nproc\nsys\ndev/console\ndev/null\nlib/modules/virtio.ko\nlib/modules/ext4.ko\nmodules\ninit\n"; err != nil || string(out) != want {
		t.Fatalf("%v:\n%s", err, out)
	}
	dir := t.TempDir()
	extract := exec.Command(cpio, "-id", "--quiet", "init", "modules", "lib/*")
	extract.Dir, extract.Stdin = dir, bytes.NewReader(b.Bytes())
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	for name, want := range map[string]string{
		"init": string(agent), "lib/modules/ext4.ko": strings.Repeat("e", 1001), "modules": "/lib/modules/virtio.ko\n/lib/modules/ext4.ko\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "init")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("init: %v, %v", info.Mode(), err)
	}
}

func TestInitramfsReportsFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testenv.Lacks(t, err)
	}
	defer full.Close()
	if err := WriteInitramfs(full, []byte("agent"), nil); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("got %v", err)
	}
}

func FuzzRelease(f *testing.F) {
	f.Add(bzImage("6.1.0"))
	f.Add([]byte("Linux version 6.1 x"))
	f.Fuzz(func(t *testing.T, image []byte) {
		release, err := readRelease(bytes.NewReader(image))
		if err == nil && (release == "" || strings.ContainsAny(release, "/ \x00") || strings.HasPrefix(release, ".") || len(release) >= maxRelease) {
			t.Errorf("release %q", release)
		}
	})
}

func FuzzDependencies(f *testing.F) {
	f.Add(module("a,b"))
	f.Fuzz(func(t *testing.T, image []byte) {
		if names, err := dependencies(image); err == nil && len(names) > len(image) {
			t.Errorf("%d names", len(names))
		}
	})
}
