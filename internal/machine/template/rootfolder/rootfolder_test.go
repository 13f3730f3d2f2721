package rootfolder

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/template"
)

// image creates an image that contains files of different kinds.
func image(t *testing.T) machine.Root {
	t.Helper()
	when := time.Unix(1_700_000_000, 0)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o751},
		{Name: "etc/name", Typeflag: tar.TypeReg, Mode: 0o640, Uid: 7, Gid: 8, Size: 5},
		{Name: "etc/same", Typeflag: tar.TypeLink, Linkname: "etc/name"},
		{Name: "etc/link", Typeflag: tar.TypeSymlink, Linkname: "../../../etc/passwd"},
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "bin/su", Typeflag: tar.TypeReg, Mode: 0o4755, PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}},
		{Name: "fifo", Typeflag: tar.TypeFifo, Mode: 0o600},
	} {
		h.ModTime = when
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			w.Write([]byte("pyro\n"))
		}
	}
	w.Close()
	path := filepath.Join(t.TempDir(), "rootfs.ext4")
	if err := ext4image.Build(t.Context(), &b, path, ext4image.Limits{}); err != nil {
		t.Fatal(err)
	}
	return machine.Root{Digest: "sha256:1", Image: path}
}

func TestFolder(t *testing.T) {
	root, store := image(t), template.Store{Dir: t.TempDir()}
	ready := func() (r machine.Readiness) {
		t.Helper()
		if err := Ready(store, root, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if ready().Missing == "" {
		t.Error("ready before the first use")
	}
	f, err := Open(t.Context(), store, root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	isRoot := os.Geteuid() == 0
	for name, mode := range map[string]os.FileMode{
		"etc": os.ModeDir | 0o751, "etc/name": 0o640, "etc/link": os.ModeSymlink | 0o777, "bin/su": os.ModeSetuid | 0o755, "fifo": os.ModeNamedPipe | 0o600,
	} {
		if !isRoot {
			mode &^= os.ModeSetuid
		}
		if info, err := os.Lstat(filepath.Join(f.Path, name)); err != nil || info.Mode() != mode || info.ModTime().Unix() != 1_700_000_000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	info, err := os.Stat(f.Path + "/etc/same")
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Nlink != 2 || isRoot && (st.Uid != 7 || st.Gid != 8) {
		t.Errorf("%+v", st)
	}
	if b, err := os.ReadFile(f.Path + "/etc/same"); err != nil || string(b) != "pyro\n" {
		t.Errorf("%q, %v", b, err)
	}
	if target, err := os.Readlink(f.Path + "/etc/link"); err != nil || target != "../../../etc/passwd" {
		t.Errorf("%q, %v", target, err)
	}
	if r := ready(); r.Missing != "" {
		t.Errorf("%+v", r)
	}

	for range 2 {
		if err := Invalidate(t.Context(), store, root); err != nil {
			t.Fatal(err)
		}
	}
	if ready().Missing == "" {
		t.Error("ready after Invalidate")
	}
	again, err := Open(t.Context(), store, root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := os.Chmod(again.Path+"/etc", 0o700); err != nil {
		t.Fatal(err)
	}
	if r := ready(); !r.Damaged {
		t.Errorf("a changed folder: %+v", r)
	}
}
