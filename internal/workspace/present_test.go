package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
)

// TestPresent checks which files of the host count as present in a workspace. Each case changes one
// of two equal files.
func TestPresent(t *testing.T) {
	const size = 300 << 10 // more than one buffer
	content := strings.Repeat("x", size)
	at := time.Unix(1_700_000_000, 123_456_789)
	type sides struct{ host, there string }
	put := func(path, content string) {
		check(t, os.WriteFile(path, []byte(content), 0o644))
		check(t, os.Chtimes(path, at, at))
	}
	cases := map[string]struct {
		change func(s sides)
		want   bool
	}{
		"equal":              {func(sides) {}, true},
		"empty":              {func(s sides) { put(s.host, ""); put(s.there, "") }, true},
		"other content":      {func(s sides) { put(s.there, content[1:]+"y") }, false},
		"other first byte":   {func(s sides) { put(s.there, "y"+content[1:]) }, false},
		"shorter":            {func(s sides) { put(s.there, content[1:]) }, false},
		"longer":             {func(s sides) { put(s.there, content+"x") }, false},
		"other mode":         {func(s sides) { check(t, os.Chmod(s.there, 0o755)) }, false},
		"setuid":             {func(s sides) { check(t, os.Chmod(s.there, 0o644|os.ModeSetuid)) }, false},
		"a nanosecond later": {func(s sides) { check(t, os.Chtimes(s.there, at, at.Add(1))) }, false},
		"missing":            {func(s sides) { check(t, os.Remove(s.there)) }, false},
		"a link to an equal": {func(s sides) { check(t, os.Rename(s.there, s.there+"2")); check(t, os.Symlink("f2", s.there)) }, false},
		"two names":          {func(s sides) { check(t, os.Link(s.there, s.there+"2")) }, false},
		"a pipe":             {func(s sides) { check(t, os.Remove(s.there)); check(t, unix.Mkfifo(s.there, 0o644)) }, false},
		"a folder":           {func(s sides) { check(t, os.Remove(s.there)); check(t, os.Mkdir(s.there, 0o755)) }, false},
		"below a linked folder": {func(s sides) {
			above := filepath.Dir(s.there)
			check(t, os.Rename(above, above+"2"))
			check(t, os.Symlink(filepath.Base(above)+"2", above))
		}, false},
		"sparse": {func(s sides) {
			check(t, os.Truncate(s.host, 1<<20))
			check(t, os.Truncate(s.there, 1<<20))
			check(t, os.Chtimes(s.host, at, at))
			check(t, os.Chtimes(s.there, at, at))
		}, false},
	}
	if os.Geteuid() == 0 {
		cases["of another user"] = struct {
			change func(s sides)
			want   bool
		}{func(s sides) { check(t, os.Chown(s.there, 1000, 0)) }, false}
		cases["of another group"] = struct {
			change func(s sides)
			want   bool
		}{func(s sides) { check(t, os.Chown(s.there, 0, 1000)) }, false}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			s := sides{filepath.Join(top, "f"), filepath.Join(top, "volume/into/sub/f")}
			check(t, os.MkdirAll(filepath.Dir(s.there), 0o755))
			put(s.host, content)
			put(s.there, content)
			c.change(s)
			folder, err := os.Open(filepath.Join(top, "volume"))
			check(t, err)
			defer folder.Close()
			file, err := os.Open(s.host)
			check(t, err)
			defer file.Close()
			var st unix.Stat_t
			check(t, unix.Fstat(int(file.Fd()), &st))
			compare := newComparer(&reader{host: volume.NewReader(folder), folder: folder}, "into")
			if got := compare.present(t.Context(), "sub/f", int(file.Fd()), &st); got != c.want {
				t.Errorf("present: %t, not %t", got, c.want)
			}
		})
	}
}
