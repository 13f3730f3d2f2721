package archive

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestHostileStreams(t *testing.T) {
	top := t.TempDir()
	above := filepath.Join(top, "above")
	check(t, os.Mkdir(above, 0o755))
	put(t, filepath.Join(top, "precious"), "precious", 0o600)
	for name, c := range map[string]struct {
		entries []entry
		says    string
	}{
		"nothing":                      {nil, "the stream is empty"},
		"a first that climbs":          {[]entry{file("../precious")}, `entry "../precious": its name contains ..`},
		"a first that is absolute":     {[]entry{file("/precious")}, "its name is absolute"},
		"a first of two words":         {[]entry{file("a/b")}, "must be a single component"},
		"a first without a name":       {[]entry{file(".")}, "must be a single component"},
		"a first that is a device":     {[]entry{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}, "devices and FIFOs are not allowed"},
		"a first that is a FIFO":       {[]entry{{Typeflag: tar.TypeFifo, Name: "p"}}, "devices and FIFOs are not allowed"},
		"a first that is a hard link":  {[]entry{hard("a", "../precious")}, "hard link to a file outside of the export"},
		"two files":                    {[]entry{file("a"), file("b")}, `entry "b": its directory is not part of the export`},
		"a file twice":                 {[]entry{file("a"), file("a")}, "its directory is not part of the export"},
		"a file in a file":             {[]entry{file("a"), file("a/b")}, "its directory is not part of the export"},
		"a file in a first link":       {[]entry{link("a", ".."), file("a/precious")}, "its directory is not part of the export"},
		"two folders":                  {[]entry{dir("a"), dir("b")}, `entry "b": it is not below the first entry, "a"`},
		"a folder twice":               {[]entry{dir("a"), dir("a")}, "it is a duplicate"},
		"the top twice":                {[]entry{dir("."), dir("./")}, "it is a duplicate"},
		"a name that climbs":           {[]entry{dir("a"), file("a/../../precious")}, `entry "a/../../precious": its name contains ..`},
		"a name that climbs from .":    {[]entry{dir("."), file("../precious")}, "its name contains .."},
		"a file through a link":        {[]entry{dir("a"), link("a/l", "../.."), file("a/l/precious")}, `entry "a/l/precious": a parent is a link, or not a folder`},
		"a folder through a link":      {[]entry{dir("a"), link("a/l", ".."), dir("a/l/d")}, "a parent is a link, or not a folder"},
		"a file over a link":           {[]entry{dir("a"), link("a/l", "../../precious"), file("a/l")}, "entry of this name exists already"},
		"a link over a folder":         {[]entry{dir("a"), dir("a/d"), link("a/d", "../..")}, "entry of this name exists already"},
		"a hard link out":              {[]entry{dir("a"), hard("a/h", "../precious")}, `hard link to "../precious": its name contains ..`},
		"a hard link out by name":      {[]entry{dir("a"), hard("a/h", "precious")}, `it is not below the first entry, "a"`},
		"a hard link to itself":        {[]entry{dir("a"), hard("a/h", "a/h")}, "is not an existing file"},
		"a hard link to the top":       {[]entry{dir("a"), hard("a/h", "a")}, "it is a duplicate"},
		"a hard link through a link":   {[]entry{dir("a"), link("a/l", "../.."), hard("a/h", "a/l/precious")}, "is not an existing file"},
		"a hard link to a link":        {[]entry{dir("a"), link("a/l", "../../precious"), hard("a/h", "a/l")}, "is not an existing file"},
		"a device":                     {[]entry{dir("a"), {Typeflag: tar.TypeBlock, Name: "a/sda"}}, `entry "a/sda": devices and FIFOs are not allowed`},
		"a FIFO":                       {[]entry{dir("a"), {Typeflag: tar.TypeFifo, Name: "a/p"}}, "devices and FIFOs are not allowed"},
		"a link to nothing":            {[]entry{dir("a"), link("a/l", "")}, "link without a target"},
		"an unknown kind":              {[]entry{dir("a"), {Typeflag: 'X', Name: "a/x"}}, "unknown entry type"},
		"a file without its folder":    {[]entry{dir("a"), file("a/b/c")}, "its folder does not exist"},
		"an existing file":             {[]entry{dir("a"), file("a/f"), file("a/f"), dir("a/g")}, "entry of this name exists already"},
		"a part that is too long":      {[]entry{dir("a"), file("a/" + strings.Repeat("n", 256))}, "255 bytes"},
		"a name that becomes too long": {[]entry{dir("a"), dir("a/" + strings.Repeat("n/", 2030) + "n")}, ""},
		"the name of a staged file":    {[]entry{dir("."), link(".pyro-export-x", "../.."), file(".pyro-export-x/precious")}, "a parent is a link"},
	} {
		for _, target := range []string{"target", "precious"} {
			_, err := extract(t, archiveOf(t, c.entries...), filepath.Join(above, target), true)
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), above) {
				t.Errorf("%s: got error %v of kind %q", name, err, fault.KindOf(err))
			}
		}
		only(t, above)
	}
	only(t, top, "above", "precious")
	if b, err := os.ReadFile(filepath.Join(top, "precious")); string(b) != "precious" {
		t.Errorf("file outside: got %q, %v, want it unchanged", b, err)
	}
}

func TestOversizedStreams(t *testing.T) {
	above := t.TempDir()
	target := filepath.Join(above, "target")
	whole := archiveOf(t, dir("d"), file("d/a"), file("d/b"))
	for _, c := range []struct {
		limits Limits
		kind   fault.Kind
	}{{Limits{Bytes: 10, Entries: 3}, ""}, {Limits{Bytes: 9}, fault.Exhausted}, {Limits{Entries: 2}, fault.Exhausted}} {
		_, err := Extract(t.Context(), bytes.NewReader(whole), target, Options{Force: true, Limits: c.limits})
		if fault.KindOf(err) != c.kind {
			t.Errorf("%+v: got error %v of kind %q", c.limits, err, fault.KindOf(err))
		}
	}
	only(t, above, "target")
	if !isRoot {
		return
	}
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		testenv.Lacks(t, err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	large := file("d/large")
	large.Size = 4 << 20
	put(t, filepath.Join(small, "target"), "old", 0o600)
	_, err := extract(t, archiveOf(t, dir("d"), file("d/a"), large), filepath.Join(small, "target"), true)
	wantKind(t, err, fault.Exhausted, "no space left")
	only(t, small, "target")
	if b, _ := os.ReadFile(filepath.Join(small, "target")); string(b) != "old" {
		t.Errorf("the old one is %q", b)
	}
}
