package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// rootFor creates a root folder with a user database. It returns the folder's descriptor and path.
func rootFor(t testing.TB, passwd, group string) (fd int, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"passwd": passwd, "group": group} {
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return openRoot(t, dir), dir
}

func openRoot(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\n# a remark\n\nbroken\nann:x:1000:100:Ann:/home/ann:/bin/sh\nann:x:1:1:again:/:/bin/sh\n" +
		"bob:x:1001:1001::relative:/bin/sh\nmad:x:-1:zero::/:\nbig:x:4294967296:1::/:\nnobody:x:65534:65534:::\n"
	someGroups = "root:x:0:\nwheel:x:10:root,ann\nusers:x:100:\naudio:x:29:bob,ann,bob\nmad:x:x:ann\nshort:x:5\n1000:x:77:\n"
)

func TestFindUser(t *testing.T) {
	root, _ := rootFor(t, passwd, someGroups)
	for who, want := range map[string]struct {
		uid, gid uint32
		groups   []uint32
		home     string
		err      string
	}{
		"root":          {0, 0, nil, "/root", ""},
		"0":             {0, 0, nil, "/root", ""},
		"ann":           {1000, 100, []uint32{10, 29}, "/home/ann", ""},
		"1000":          {1000, 100, []uint32{10, 29}, "/home/ann", ""},
		"ann:wheel":     {1000, 10, []uint32{10, 29}, "/home/ann", ""},
		"ann:4":         {1000, 4, []uint32{10, 29}, "/home/ann", ""},
		"1234":          {1234, 0, nil, "/", ""},
		"1234:5678":     {1234, 5678, nil, "/", ""},
		"root:users":    {0, 100, []uint32{10}, "/root", ""},
		"bob":           {1001, 1001, []uint32{29, 29}, "/", ""},
		"nobody":        {65534, 65534, nil, "/", ""},
		"carl":          {err: "no such user"},
		"mad":           {err: "no such user"},
		"big":           {err: "no such user"},
		"-1":            {err: "no such user"},
		"4294967296":    {err: "no such user"},
		"broken":        {err: "no such user"},
		"ann:none":      {err: "no such group"},
		"ann:-1":        {err: "no such group"},
		"ann:mad":       {err: "no such group"},
		"ann:":          {err: "no such group"},
		"a\nroot":       {err: "no such user"},
		"../etc/passwd": {err: "no such user"},
	} {
		got, err := findUser(root, who)
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%q: %+v, %v", who, got, err)
			}
			continue
		}
		c := got.credential
		if err != nil || c.Uid != want.uid || c.Gid != want.gid || !slices.Equal(c.Groups, want.groups) || got.home != want.home {
			t.Errorf("%q: %+v, %v", who, got, err)
		}
	}
	if got, err := findUser(root, ""); err != nil || int(got.credential.Uid) != os.Getuid() {
		t.Errorf("default user: got %+v, %v", got, err)
	}
}

func TestFindUserInUnusualFiles(t *testing.T) {
	empty := openRoot(t, t.TempDir())
	if got, err := findUser(empty, "7:8"); err != nil || got.credential.Uid != 7 || got.credential.Gid != 8 {
		t.Errorf("without a database: %+v, %v", got, err)
	}
	if _, err := findUser(empty, "ann"); err == nil {
		t.Error("a name without a database")
	}
	for name, make := range map[string]func(path string) error{
		"pipe":       func(p string) error { return unix.Mkfifo(p, 0o644) },
		"folder":     func(p string) error { return os.Mkdir(p, 0o755) },
		"out of it":  func(p string) error { return os.Symlink("/proc/self/root/etc/passwd", p) },
		"a loop":     func(p string) error { return os.Symlink("passwd", p) },
		"a device":   func(p string) error { return os.Symlink("/dev/zero", p) },
		"endless":    func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 3<<20)), 0o644) },
		"big, holes": func(p string) error { return os.Truncate(p, 0) },
	} {
		root, dir := rootFor(t, passwd, someGroups)
		path := filepath.Join(dir, "etc", "passwd")
		if name != "big, holes" {
			os.Remove(path)
		}
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		done := time.AfterFunc(testenv.Patience, func() { panic(name + ": it hangs") })
		if got, err := findUser(root, "ann"); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
		done.Stop()
	}
}

// FuzzUsers uses hostile user databases, because programs in the machine can change the database.
func FuzzUsers(f *testing.F) {
	f.Add(passwd, someGroups, "ann")
	f.Add(passwd, someGroups, "1000:wheel")
	f.Add("a:::::", ":::,,,", "a:")
	f.Add(strings.Repeat(":", 70_000), strings.Repeat("g:x:1:ann\n", 1000), "ann:g")
	dir := f.TempDir()
	os.Mkdir(filepath.Join(dir, "etc"), 0o755)
	root := openRoot(f, dir)
	f.Fuzz(func(t *testing.T, passwd, group, who string) {
		for name, content := range map[string]string{"passwd": passwd, "group": group} {
			if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		u, err := findUser(root, who)
		if err == nil && (len(u.credential.Groups) > maxGroups || !strings.HasPrefix(u.home, "/")) {
			t.Errorf("%+v", u)
		}
		// A name must not be found if it is neither in the database nor a number.
		if name, _, _ := strings.Cut(who, ":"); err == nil && name != "" && !strings.Contains(passwd, name) {
			if _, err := id(name); err != nil {
				t.Errorf("%q is %+v", who, u)
			}
		}
	})
}
