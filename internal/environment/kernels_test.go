package environment

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// bzImage returns a minimal kernel image with a boot header and a release.
func bzImage(release string) string {
	image := make([]byte, 0x4000)
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(image[0x20e:], 0x3000-0x200)
	copy(image[0x3000:], release+" (build@host)")
	return string(image)
}

// kernelDeb builds a package with a kernel that has all required drivers built in.
func kernelDeb(t *testing.T, release string) string {
	t.Helper()
	testenv.NeedsTool(t, "dpkg-deb")
	dir := t.TempDir()
	for path, text := range map[string]string{
		"DEBIAN/control":                                   "Package: linux-image-" + release + "\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n",
		"boot/vmlinuz-" + release:                          bzImage(release),
		"lib/modules/" + release + "/modules.builtin":      "kernel/virtio_mmio.ko\nkernel/virtio_blk.ko\nkernel/virtio_console.ko\nkernel/ext4.ko\n",
		"usr/share/doc/linux-image-" + release + "/readme": "not needed",
	} {
		path = filepath.Join(dir, path)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	deb := filepath.Join(t.TempDir(), "linux-image.deb")
	if out, err := exec.Command("dpkg-deb", "--build", "--root-owner-group", dir, deb).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return deb
}

// agent is an Agent that counts calls of Bytes.
type agent struct {
	text string
	read int
}

func (a *agent) Digest() string         { return "sha256:of " + a.text }
func (a *agent) Bytes() ([]byte, error) { a.read++; return []byte(a.text), nil }

func kernelStore(t *testing.T) (s *Store, fetched *int) {
	t.Setenv(KernelVariable, "")
	s = testStore(t.TempDir())
	fetched = new(int)
	deb := kernelDeb(t, "6.1.0-1-cloud-amd64")
	s.kernelPackage = func(context.Context, string, progress.Func) (string, error) {
		*fetched++
		return deb, nil
	}
	return s, fetched
}

func TestKernelIsFetchedOnce(t *testing.T) {
	s, fetched := kernelStore(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if k, err := s.Kernel(t.Context(), nil); err != nil || k.Release != "6.1.0-1-cloud-amd64" {
				t.Error(k, err)
			}
		})
	}
	group.Wait()
	k := must[Kernel](t)(s.Kernel(t.Context(), nil))
	if text, err := os.ReadFile(k.Path); err != nil || string(text) != bzImage(k.Release) || !isDigest(k.Digest) || k.Origin != "linux-image.deb" {
		t.Errorf("%+v, %v", k, err)
	}
	if *fetched != 1 {
		t.Errorf("fetched %d times", *fetched)
	}

	if err := s.ForgetKernel(); err != nil {
		t.Fatal(err)
	}
	if again := must[Kernel](t)(s.Kernel(t.Context(), nil)); again != k || *fetched != 2 {
		t.Errorf("%+v after %d fetches", again, *fetched)
	}
	os.Chmod(k.Path, 0o644)
	put(t, k.Path, "damage")
	if again := must[Kernel](t)(s.Kernel(t.Context(), nil)); again != k || *fetched != 3 {
		t.Errorf("%+v after %d fetches", again, *fetched)
	}
	if text, _ := os.ReadFile(k.Path); string(text) != bzImage(k.Release) {
		t.Error("the damaged kernel is still there")
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestChosenKernel(t *testing.T) {
	s, fetched := kernelStore(t)
	own := must[Kernel](t)(s.Kernel(t.Context(), nil))
	path := filepath.Join(t.TempDir(), "my-kernel")
	put(t, path, bzImage("6.9.9-none-such"))
	t.Setenv(KernelVariable, path)
	chosen := must[Kernel](t)(s.Kernel(t.Context(), nil))
	if chosen.Release != "6.9.9-none-such" || chosen.Origin != path || chosen.Digest == own.Digest {
		t.Errorf("chose %+v", chosen)
	}
	time.Sleep(20 * time.Millisecond) // File times can have a coarse resolution.
	put(t, path, bzImage("6.9.10-none-such"))
	if changed := must[Kernel](t)(s.Kernel(t.Context(), nil)); changed.Release != "6.9.10-none-such" {
		t.Errorf("a changed kernel is still %+v", changed)
	}
	for _, bad := range []string{path + ".gone", t.TempDir()} {
		t.Setenv(KernelVariable, bad)
		if _, err := s.Kernel(t.Context(), nil); fault.KindOf(err) != fault.Invalid || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	put(t, path, "no kernel")
	t.Setenv(KernelVariable, path)
	if _, err := s.Kernel(t.Context(), nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
	t.Setenv(KernelVariable, "")
	if again := must[Kernel](t)(s.Kernel(t.Context(), nil)); again != own || *fetched != 1 {
		t.Errorf("%+v after %d fetches", again, *fetched)
	}
}

func TestInvalidKernelPackages(t *testing.T) {
	s, _ := kernelStore(t)
	broken := filepath.Join(t.TempDir(), "linux-image.deb")
	put(t, broken, "no package")
	s.kernelPackage = func(context.Context, string, progress.Func) (string, error) { return broken, nil }
	if _, err := s.Kernel(t.Context(), nil); err == nil {
		t.Error("a broken package has given a kernel")
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.kernelPackage = func(ctx context.Context, _ string, _ progress.Func) (string, error) {
		cancel()
		return "", ctx.Err()
	}
	if _, err := s.Kernel(ctx, nil); fault.KindOf(err) != fault.Canceled {
		t.Errorf("got %v", err)
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestInitramfs(t *testing.T) {
	s, _ := kernelStore(t)
	k := must[Kernel](t)(s.Kernel(t.Context(), nil))
	one, two := &agent{text: "agent one"}, &agent{text: "agent two"}
	first := must[Initramfs](t)(s.Initramfs(t.Context(), k, one))
	if again := must[Initramfs](t)(s.Initramfs(t.Context(), k, one)); again != first || one.read != 1 {
		t.Errorf("%+v after reading %d times", again, one.read)
	}
	if other := must[Initramfs](t)(s.Initramfs(t.Context(), k, two)); other.Digest == first.Digest || other.Path == first.Path {
		t.Errorf("with another agent: got %+v", other)
	}
	want, err := os.ReadFile(first.Path)
	if err != nil || !strings.Contains(string(want), "agent one") {
		t.Fatal(err)
	}
	os.Chmod(first.Path, 0o644)
	put(t, first.Path, "damage")
	must[Initramfs](t)(s.Initramfs(t.Context(), k, one))
	if got, _ := os.ReadFile(first.Path); string(got) != string(want) {
		t.Error("a damaged one is not mended")
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestOldKernelsArePruned(t *testing.T) {
	s, _ := kernelStore(t)
	old := must[Kernel](t)(s.Kernel(t.Context(), nil))
	oldInitramfs := must[Initramfs](t)(s.Initramfs(t.Context(), old, &agent{text: "old"}))
	newer := kernelDeb(t, "6.1.0-2-cloud-amd64")
	s.kernelPackage = func(context.Context, string, progress.Func) (string, error) { return newer, nil }
	if err := s.ForgetKernel(); err != nil {
		t.Fatal(err)
	}
	current := must[Kernel](t)(s.Kernel(t.Context(), nil))
	if pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{})); len(pruned.Removed) != 0 {
		t.Errorf("pruned a kernel that may be in use: %+v", pruned)
	}
	ago := time.Now().Add(-2 * keepFor)
	for _, path := range []string{filepath.Dir(old.Path), filepath.Dir(current.Path), oldInitramfs.Path, oldInitramfs.Path + ".json"} {
		if err := os.Chtimes(path, ago, ago); err != nil {
			t.Fatal(err)
		}
	}
	pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{}))
	if len(pruned.Removed) != 2 || pruned.FreedBytes < 0x4000 {
		t.Errorf("pruned %+v", pruned)
	}
	if exists(old.Path) || exists(oldInitramfs.Path) || !exists(current.Path) {
		t.Error("the wrong ones were pruned")
	}
}

func TestCompareVersions(t *testing.T) {
	ordered := []string{"/boot/vmlinuz-5.10.0", "/boot/vmlinuz-6.1.0-9-amd64", "/boot/vmlinuz-6.1.0-10-amd64", "/boot/vmlinuz-6.12.0"}
	for i := range ordered {
		for j := range ordered {
			if got := compareVersions(ordered[i], ordered[j]); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s to %s: %d", ordered[i], ordered[j], got)
			}
		}
	}
}
