package workspace

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const refused = "(refused)"

func TestPaths(t *testing.T) {
	for _, test := range []struct{ given, inside, onDisk string }{
		{"", "", "workspace"},
		{".", "", "workspace"},
		{"a", "a", "workspace/a"},
		{"a/b/", "a/b", "workspace/a/b"},
		{"./a//b/../c", "a/c", "workspace/a/c"},
		{"/workspace", "", "workspace"},
		{"/workspace/", "", "workspace"},
		{"//workspace///a", "a", "workspace/a"},
		{"workspace", "workspace", "workspace/workspace"},
		{"/", refused, "."},
		{"/etc/passwd", refused, "etc/passwd"},
		{"/workspacex", refused, "workspacex"},
		{"/workspace/..", refused, "."},
		{"/workspace/../etc", refused, "etc"},
		{"/../workspace/a", "a", "workspace/a"},
		{"..", refused, "."},
		{"../etc", refused, "etc"},
		{"../workspace/a", "a", "workspace/a"},
		{"a/../../../../x", refused, "x"},
		{"...", "...", "workspace/..."},
		{"..a", "..a", "workspace/..a"},
		{"a\\..\\b", "a\\..\\b", "workspace/a\\..\\b"},
		{" ", " ", "workspace/ "},
		{"-rf", "-rf", "workspace/-rf"},
		{"a\nb", "a\nb", "workspace/a\nb"},
		{"\xff", "\xff", "workspace/\xff"},
		{"a\x00b", refused, refused},
		{"/workspace/\x00", refused, refused},
		{strings.Repeat("x", 4096), strings.Repeat("x", 4096), "workspace/" + strings.Repeat("x", 4096)},
		{strings.Repeat("x", 4097), refused, refused},
	} {
		for want, way := range map[*string]func(string) (string, error){&test.inside: Inside, &test.onDisk: onDisk} {
			got, err := way(test.given)
			if err != nil && fault.KindOf(err) != fault.Invalid {
				t.Errorf("%.40q: %v", test.given, err)
			}
			if err != nil {
				got = refused
			}
			if got != *want {
				t.Errorf("%.40q: %.40q, want %.40q", test.given, got, *want)
			}
		}
	}
}

func FuzzPaths(f *testing.F) {
	for _, seed := range []string{"", "a", "/workspace/../x", "../../..", "a/./b//c", "\x00", "/workspace", "..\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		if below, err := Inside(given); err == nil {
			for part := range strings.SplitSeq(below, "/") {
				if below != "" && (part == "" || part == "." || part == "..") || strings.ContainsRune(part, 0) {
					t.Errorf("%q leads to %q", given, below)
				}
			}
			if again, err := Inside(AbsolutePath(below)); err != nil || again != below {
				t.Errorf("%q: %q, then %q, %v", given, below, again, err)
			}
			if on, err := onDisk(given); err != nil || on != path.Join("workspace", below) {
				t.Errorf("%q: %q inside, %q on the disk, %v", given, below, on, err)
			}
		}
		if on, err := onDisk(given); err == nil && !fs.ValidPath(strings.ToValidUTF8(on, "x")) {
			t.Errorf("%q: %q on the disk", given, on)
		}
	})
}

func TestTextIsCutBetweenCharacters(t *testing.T) {
	for _, test := range []struct {
		content string
		most    int
		want    string
		ok      bool
	}{
		{"hello", 5, "hello", true}, {"hello!", 5, "hello", true}, {"", 0, "", true}, {"x", 0, "", true},
		{"aü", 2, "a", true}, {"a€", 3, "a", true}, {"a€x", 4, "a€", true}, {"😀x", 3, "", true},
		{"a\x00b", 9, "", false}, {"\xff", 9, "", false}, {"\xff\xff\xff\xff\xff\xff", 5, "", false}, {"ab\xc3", 9, "", false},
	} {
		got, err := textOf([]byte(test.content), test.most, int64(len(test.content)))
		if (err == nil) != test.ok || string(got.Content) != test.want || test.ok && got.Truncated != (len(test.content) > test.most) {
			t.Errorf("%q at %d: %+v, %v", test.content, test.most, got, err)
		}
		if !test.ok && fault.KindOf(err) != fault.Precondition {
			t.Errorf("%q: %v", test.content, err)
		}
	}
}
