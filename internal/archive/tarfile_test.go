package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestArchivesMatchTar(t *testing.T) {
	src := project(t)
	check(t, os.Remove(filepath.Join(src, "up"))) // This link leads out of the archive.
	check(t, os.Remove(filepath.Join(src, "src/python")))
	run(t, "sh", "-c", "chmod 755 "+filepath.Join(src, "closed"))
	for name, options := range map[string][]string{
		"pax.tar": {"--format=pax"}, "pax.tar.gz": {"--format=pax", "-z"}, "gnu.tgz": {"--format=gnu", "-z"}, "gnu.tar": {"--format=gnu"},
		"old.tar": {"--format=oldgnu"}, "sparse.tar": {"--format=pax", "-S"}, "sparse.tgz": {"--format=gnu", "-Sz"}, "best.tgz": {"-I", "gzip -9"},
	} {
		archive, dst, oracle := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), "dst"), t.TempDir()
		run(t, "tar", append(options, "-C", src, "-cf", archive, ".")...)
		run(t, "tar", "-C", oracle, "--no-same-owner", "-pxf", archive)
		stream, summary, err := seed(t, archive, Policy{})
		check(t, err)
		if want := (Summary{Files: 10, Directories: 48, Symlinks: 2, HardLinks: 2, Bytes: 13 + 10 + 1 + 1_600_000 + 2 + 1 + 1 + 4 + 3<<20}); summary != want {
			t.Errorf("%s: got %+v, want %+v", name, summary, want)
		}
		read(t, stream)
		// GNU tar sets the time of a directory too early if the directory's files come later in the
		// archive.
		_, err = tree.Write(t.Context(), bytes.NewReader(stream), dst)
		check(t, err)
		same(t, describe(t, dst)[1:], describe(t, oracle)[1:])
	}
}

func TestV7(t *testing.T) {
	src := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(src, "a/b"), 0o755))
	put(t, filepath.Join(src, "a/b/f"), "x", 0o644)
	archive := filepath.Join(t.TempDir(), "v7.tar")
	run(t, "tar", "--format=v7", "-C", src, "-cf", archive, "a")
	stream, _, err := seed(t, archive, Policy{})
	check(t, err)
	if entries, content := read(t, stream); len(entries) != 3 || content["a/b/f"] != "x" {
		t.Errorf("%+v", entries)
	}
}

// TestArchivesWithReplacedEntries reads archives with entries that replace or refer to each other.
func TestArchivesWithReplacedEntries(t *testing.T) {
	mode := func(e entry, mode int64, mtime int64) entry { e.Mode, e.ModTime = mode, time.Unix(mtime, 0); return e }
	for name, c := range map[string]struct {
		entries []entry
		want    string // In names, / marks a directory, =content a file, >target a symbolic link, :name a hard link.
	}{
		"nothing":                        {nil, ""},
		"the top":                        {[]entry{dir("./"), dir("."), file("./f")}, "f=22222"},
		"folders that are missing":       {[]entry{file("a/b/f")}, "a/ a/b/ a/b/f=00000"},
		"a folder after its content":     {[]entry{file("a/f"), mode(dir("a"), 0o700, 7)}, "a/ a/f=00000"},
		"names that are not clean":       {[]entry{dir("./a//"), file("a/.//f"), dir("b/./")}, "a/ b/ a/f=11111"},
		"a file twice":                   {[]entry{file("f"), file("g"), file("f")}, "g=11111 f=22222"},
		"a file that becomes a link":     {[]entry{file("f"), link("f", "g")}, "f>g"},
		"a link that becomes a file":     {[]entry{link("f", "g"), file("f")}, "f=11111"},
		"a link that becomes a folder":   {[]entry{link("a", "b"), dir("a"), file("a/f")}, "a/ a/f=22222"},
		"a folder that becomes a file":   {[]entry{dir("a"), file("a")}, "a=11111"},
		"a file that becomes a folder":   {[]entry{file("a"), dir("a"), file("a/f")}, "a/ a/f=22222"},
		"a folder twice":                 {[]entry{dir("a"), file("a/f"), dir("a")}, "a/ a/f=11111"},
		"a hard link":                    {[]entry{file("f"), hard("g", "./f")}, "f=00000 g:f"},
		"a hard link of the lesser name": {[]entry{file("g"), hard("f", "g"), hard("h", "f")}, "f=00000 g:f h:f"},
		"a hard link to a replaced file": {[]entry{file("f"), hard("g", "f"), file("f")}, "g=00000 f=22222"},
		"a hard link to itself":          {[]entry{file("f"), hard("f", "f")}, "f=00000"},
		"a hard link that is replaced":   {[]entry{file("f"), hard("g", "f"), file("g")}, "f=00000 g=22222"},
		"a hard link to a symbolic link": {[]entry{link("l", "x"), hard("m", "l")}, "l>x m>x"},
		"a device, and a link to it":     {[]entry{{Typeflag: tar.TypeChar, Name: "null"}, hard("zero", "null"), {Typeflag: tar.TypeFifo, Name: "p"}, file("f")}, "f=33333"},
		"a device that becomes a file":   {[]entry{{Typeflag: tar.TypeBlock, Name: "f"}, file("f")}, "f=11111"},
		"a file that becomes a device":   {[]entry{file("f"), {Typeflag: tar.TypeBlock, Name: "f"}, file("g")}, "g=22222"},
		"links inside": {[]entry{dir("a/b"), link("a/b/up", "../.."), link("a/self", "."), link("a/x", "../a/b/../b/none/.."), link("loop", "loop"), link("deep", "none/none/../../f")},
			"a/ a/b/ a/b/up>../.. a/self>. a/x>../a/b/../b/none/.. deep>none/none/../../f loop>loop"},
		"a PAX global": {[]entry{{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"comment": "x"}}, file("f")}, "f=11111"},
	} {
		path := filepath.Join(t.TempDir(), "a.tar")
		check(t, os.WriteFile(path, archiveOf(t, c.entries...), 0o600))
		stream, _, err := seed(t, path, Policy{})
		check(t, err)
		var got []string
		entries, content := read(t, stream)
		for _, e := range entries {
			switch e.Typeflag {
			case tar.TypeReg:
				got = append(got, e.Name+"="+content[e.Name])
			case tar.TypeSymlink:
				got = append(got, e.Name+">"+e.Linkname)
			case tar.TypeLink:
				got = append(got, e.Name+":"+e.Linkname)
			default:
				got = append(got, e.Name)
			}
			if name == "a folder after its content" && e.Name == "a/" && (e.Mode != 0o700 || e.ModTime.Unix() != 7) {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

func TestHostileArchives(t *testing.T) {
	long := strings.Repeat("n/", 2048) + "n"
	for name, c := range map[string]struct {
		entries []entry
		says    string
	}{
		"a name that climbs":             {[]entry{file("../f")}, `entry "../f": its name contains ..`},
		"a name that climbs inside":      {[]entry{file("a/../f")}, `entry "a/../f": its name contains ..`},
		"a name that climbs at its end":  {[]entry{dir("a/..")}, "its name contains .."},
		"a name that is absolute":        {[]entry{file("/etc/passwd")}, `entry "/etc/passwd": its name is absolute`},
		"a name that is too long":        {[]entry{file(long)}, "longer than 4095 bytes"},
		"a part that is too long":        {[]entry{file("a/" + strings.Repeat("n", 256))}, "component longer than 255 bytes"},
		"a file without a name":          {[]entry{file(".")}, `entry ".": it has no name`},
		"a link that is absolute":        {[]entry{link("a", "/etc")}, `entry "a": it is a link that leads out of the archive: "/etc"`},
		"a link that climbs":             {[]entry{dir("d"), link("d/a", "../../x")}, `entry "d/a": it is a link that leads out`},
		"a link that climbs by way":      {[]entry{link("a", "b/c/../../../x")}, "leads out"},
		"a link that climbs behind one":  {[]entry{dir("d/e/f"), link("d/e/f/top", "../../.."), link("x", "d/e/f/top/..")}, `entry "x": it is a link that leads out`},
		"a link behind one that follows": {[]entry{link("x", "a/b/.."), dir("a"), link("a/b", "."), dir("z")}, `entry "x": it is a link that leads out`},
		"a link to nothing":              {[]entry{link("a", "")}, "link without a target"},
		"a link that is too long":        {[]entry{link("a", strings.Repeat("x", 4096))}, "longer than 4095 bytes"},
		"a file through a link":          {[]entry{dir("d"), link("a", "d"), file("a/f")}, `entry "a/f": its path contains the link "a"`},
		"a folder through a link":        {[]entry{dir("d"), link("d/a", "."), dir("d/a/b/c")}, `contains the link "d/a"`},
		"a link through a link":          {[]entry{dir("d"), link("a", "d"), link("a/b", "x")}, `contains the link "a"`},
		"a file in a file":               {[]entry{file("a"), file("a/f")}, `"a" is not a directory`},
		"a file over a folder":           {[]entry{file("a/f"), file("a")}, "directory that is not empty"},
		"a link over a folder":           {[]entry{file("a/f"), link("a", "b")}, "directory that is not empty"},
		"a hard link that climbs":        {[]entry{hard("a", "../x")}, `entry "a": it is a hard link to "../x": its name contains ..`},
		"a hard link that is absolute":   {[]entry{hard("a", "/etc/shadow")}, `hard link to "/etc/shadow": its name is absolute`},
		"a hard link to nothing":         {[]entry{hard("a", "b")}, `hard link to "b", which is not an earlier entry`},
		"a hard link to a later file":    {[]entry{hard("a", "b"), file("b")}, "which is not an earlier entry"},
		"a hard link to a folder":        {[]entry{dir("b"), hard("a", "b")}, `hard link to the directory "b"`},
		"a hard link through a link":     {[]entry{file("d/f"), link("l", "d"), hard("a", "l/f")}, "which is not an earlier entry"},
		"a device":                       {[]entry{{Typeflag: tar.TypeBlock, Name: "dev/sda"}}, `entry "dev/sda": devices and FIFOs are not allowed`},
		"a FIFO":                         {[]entry{{Typeflag: tar.TypeFifo, Name: "p"}}, `entry "p": devices and FIFOs are not allowed`},
		"an unknown kind":                {[]entry{{Typeflag: 'D', Name: "d"}}, "unknown entry type"},
	} {
		for _, suffix := range []string{".tar", ".tgz"} {
			path := filepath.Join(t.TempDir(), "a"+suffix)
			b := archiveOf(t, c.entries...)
			if suffix == ".tgz" {
				b = zipped(t, b)
			}
			check(t, os.WriteFile(path, b, 0o600))
			stream, _, err := seed(t, path, Policy{Devices: RefuseDevices})
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) || len(stream) > 0 {
				t.Errorf("%s: got error %v of kind %q, after %d bytes", name, err, fault.KindOf(err), len(stream))
			}
		}
	}
}

func TestOversizedArchives(t *testing.T) {
	many := make([]entry, 20)
	for i := range many {
		many[i] = file(fmt.Sprint(i))
	}
	claim := archiveOf(t, file("f"))
	huge := entry{Typeflag: tar.TypeReg, Name: "huge", Size: 1 << 50, Format: tar.FormatGNU}
	var b bytes.Buffer
	check(t, tar.NewWriter(&b).WriteHeader(&huge))
	for name, c := range map[string]struct {
		archive []byte
		limits  Limits
		kind    fault.Kind
		says    string
	}{
		"as much as the limits allow": {archiveOf(t, many...), Limits{Bytes: 100, Entries: 20}, "", ""},
		"one file too many":           {archiveOf(t, many...), Limits{Entries: 19}, fault.Exhausted, `entry "19": there are more than 19 files`},
		"one byte too many":           {archiveOf(t, many...), Limits{Bytes: 99}, fault.Exhausted, `entry "19": its 5 bytes exceed`},
		"folders that it makes":       {archiveOf(t, file(strings.Repeat("a/", 30)+"f")), Limits{Entries: 30}, fault.Exhausted, "more than 30 files"},
		"a wrong size":                {append(b.Bytes(), claim...), Limits{}, fault.Exhausted, `entry "huge": its 1125899906842624 bytes exceed`},
		"missing content":             {b.Bytes(), Limits{Bytes: 1 << 60}, fault.Invalid, "truncated"},
	} {
		path := filepath.Join(t.TempDir(), "a.tar")
		check(t, os.WriteFile(path, c.archive, 0o600))
		_, _, err := seed(t, path, Policy{Limits: c.limits})
		if fault.KindOf(err) != c.kind || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got error %v of kind %q", name, err, fault.KindOf(err))
		}
	}
}

func TestBombIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bomb.tgz")
	f, err := os.Create(path)
	check(t, err)
	w, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	check(t, err)
	_, err = w.Write(archiveOf(t))
	check(t, err)
	zeros := make([]byte, 1<<20)
	for range 20 { // zeros after the end marker, which do not count as entries
		_, err := w.Write(zeros)
		check(t, err)
	}
	check(t, errors.Join(w.Close(), f.Close()))
	_, _, err = seed(t, path, Policy{Limits: Limits{Bytes: 1 << 20, Entries: 10}})
	wantKind(t, err, fault.Exhausted, "it unpacks to more than")
}

func TestDamagedArchives(t *testing.T) {
	big := file("f")
	big.Size = 100_000
	plain := archiveOf(t, dir("d"), big, file("g"))
	packed := zipped(t, plain)
	flipped := bytes.Clone(packed)
	flipped[len(flipped)/2] ^= 0x10
	sum := bytes.Clone(packed)
	sum[len(sum)-6] ^= 1
	for name, c := range map[string]struct {
		suffix  string
		archive []byte
		says    string
	}{
		"cut in a header":          {".tar", plain[:700], `"d": the archive is truncated`},
		"cut in a file":            {".tar", plain[:50_000], `"f": the archive is truncated`},
		"cut between files":        {".tar", plain[:len(plain)-2048], "the archive is truncated"},
		"cut before its end":       {".tar", plain[:len(plain)-1024], `"g": the archive is truncated`},
		"nonsense in it":           {".tar", append(bytes.Clone(plain[:512]), bytes.Repeat([]byte("x"), 2000)...), "damaged"},
		"something behind it":      {".tar", append(bytes.Clone(plain), "garbage"...), "data follows the end of the archive"},
		"another behind it":        {".tar", append(bytes.Clone(plain), plain...), "data follows the end of the archive"},
		"compression that is cut":  {".tgz", packed[:len(packed)/2], "truncated"},
		"compression without end":  {".tgz", packed[:len(packed)-8], "truncated"},
		"compression damaged":      {".tgz", flipped, ""},
		"a wrong sum":              {".tgz", sum, "checksum"},
		"garbage behind a tgz":     {".tgz", append(bytes.Clone(packed), "garbage, and more of it"...), "not compressed with gzip"},
		"another tgz behind a tgz": {".tgz", append(bytes.Clone(packed), packed...), "data follows the end of the archive"},
		"a tgz of nothing":         {".tgz", zipped(t, nil), "truncated"},
		"a tgz of nonsense":        {".tgz", zipped(t, []byte(strings.Repeat("nonsense", 100))), "not a tar archive"},
		"a tgz's beginning":        {".tgz", packed[:5], "truncated"},
	} {
		path := filepath.Join(t.TempDir(), "a"+c.suffix)
		check(t, os.WriteFile(path, c.archive, 0o600))
		_, _, err := seed(t, path, Policy{})
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v of kind %q", name, err, fault.KindOf(err))
		}
	}
	path := filepath.Join(t.TempDir(), "padded.tgz")
	check(t, os.WriteFile(path, zipped(t, append(bytes.Clone(plain), make([]byte, 20<<10)...)), 0o600))
	_, _, err := seed(t, path, Policy{})
	check(t, err)
}

// TestChangingArchiveIsDetected replaces the content of an archive between the two passes.
func TestChangingArchiveIsDetected(t *testing.T) {
	other := file("f")
	other.Size = 6
	for name, after := range map[string][]byte{
		"a file longer":  archiveOf(t, other, file("g")),
		"a file less":    archiveOf(t, file("f")),
		"a file more":    archiveOf(t, file("f"), file("g"), file("h")),
		"only the time":  archiveOf(t, file("f"), file("g")),
		"another format": []byte(strings.Repeat("x", 3000)),
	} {
		path := filepath.Join(t.TempDir(), "a.tar")
		check(t, os.WriteFile(path, archiveOf(t, file("f"), file("g")), 0o600))
		check(t, os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
		source, err := Open(path)
		check(t, err)
		noticed := false
		for step := range 40 {
			check(t, os.WriteFile(path, archiveOf(t, file("f"), file("g")), 0o600))
			check(t, os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
			var b bytes.Buffer
			_, err := source.WriteTar(&interference{t.Context(), step, func() { check(t, os.WriteFile(path, after, 0o600)) }}, &b, Policy{})
			if err == nil {
				_, content := read(t, b.Bytes())
				if len(content) != 2 {
					t.Errorf("%s at step %d: %q", name, step, content)
				}
			}
			noticed = noticed || fault.KindOf(err) == fault.Precondition
		}
		check(t, source.Close())
		if !noticed && name != "another format" {
			t.Errorf("%s: the change was not noticed", name)
		}
	}
}

// FuzzArchive checks that WriteTar keeps its guarantees for any archive.
func FuzzArchive(f *testing.F) {
	f.Add(archiveOf(f, dir("d"), file("d/f"), link("d/l", "../d/f"), hard("h", "d/f"), file("d/f")), false)
	f.Add(archiveOf(f, file("a/b/c"), link("x", "a"), dir("x"), hard("y", "a/b/c"), entry{Typeflag: tar.TypeChar, Name: "null"}), true)
	f.Add(archiveOf(f, entry{Typeflag: tar.TypeReg, Name: "ü", Size: 3, ModTime: time.Unix(1, 5), Format: tar.FormatPAX, PAXRecords: map[string]string{"a": "b"}}), true)
	f.Add(archiveOf(f, entry{Typeflag: tar.TypeReg, Name: strings.Repeat("n", 200), Size: 3, Format: tar.FormatGNU}, link("../x", "/")), false)
	for _, b := range sparseSeeds(f) {
		f.Add(b, false)
	}
	path := filepath.Join(f.TempDir(), "a.tar")
	f.Fuzz(func(t *testing.T, b []byte, compressed bool) {
		if b = fixChecksums(b); compressed {
			b = zipped(t, b)
		}
		check(t, os.WriteFile(path, b, 0o600))
		file, err := os.Open(path)
		check(t, err)
		info, err := file.Stat()
		check(t, err)
		source := &tarFile{file, compressed, info}
		defer source.Close()
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		defer cancel()
		summary, err := source.WriteTar(ctx, &out, Policy{Limits: Limits{Bytes: 1 << 20, Entries: 100}})
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.Invalid && kind != fault.Exhausted {
				t.Errorf("got error %v of kind %q", err, kind)
			}
			return
		}
		entries, content := read(t, out.Bytes())
		if n := summary.Files + summary.Directories + summary.Symlinks + summary.HardLinks; n != len(entries) || n > 100 || summary.Files+summary.HardLinks != len(content) {
			t.Errorf("%+v of %d entries", summary, len(entries))
		}
		// Normalizing a normalized stream must succeed.
		again := filepath.Join(t.TempDir(), "again.tar")
		check(t, os.WriteFile(again, out.Bytes(), 0o600))
		if _, second, err := seed(t, again, Policy{Devices: RefuseDevices}); err != nil || second.Files != summary.Files || second.HardLinks != summary.HardLinks {
			t.Errorf("%+v, then %+v, %v", summary, second, err)
		}
	})
}
