package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// TestUnusableFiles checks that no file that a program can make stops the renewal of the machine,
// and that the other files get their content.
func TestUnusableFiles(t *testing.T) {
	identity := &agentv1.RenewRequest{MachineId: "0123", Hostname: "m-1", Network: &agentv1.Network{Dns: []string{"10.0.0.1"}}}
	wanted := map[string]string{"machine-id": "0123\n", "hostname": "m-1\n", "hosts": withName("", "m-1"), "resolv.conf": "nameserver 10.0.0.1\n"}
	for name, create := range map[string]func(path string) error{
		"a folder":        func(path string) error { return os.Mkdir(path, 0o755) },
		"a pipe":          func(path string) error { return unix.Mkfifo(path, 0o644) },
		"a loop of links": func(path string) error { return os.Symlink(filepath.Base(path), path) },
		"a link upwards":  func(path string) error { return os.Symlink("../../../nowhere/file", path) },
		"a huge file": func(path string) error {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(path, 1<<30)
		},
	} {
		for file := range wanted {
			t.Run(file+" is "+name, func(t *testing.T) {
				dir := t.TempDir()
				etc := filepath.Join(dir, "etc")
				if err := os.Mkdir(etc, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := create(filepath.Join(etc, file)); err != nil {
					t.Fatal(err)
				}
				root, err := os.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer root.Close()
				if err := identify(int(root.Fd()), identity); err != nil {
					t.Fatal(err)
				}
				for other, want := range wanted {
					if other == file {
						continue
					}
					if got, err := os.ReadFile(filepath.Join(etc, other)); string(got) != want {
						t.Errorf("%s: got %q, %v", other, got, err)
					}
				}
			})
		}
	}
}

// TestRightFilesStay checks that a renewal does not write files that have the right content.
func TestRightFilesStay(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	blocked := strings.Repeat("0.0.0.0 tracker.example.com\n", 100_000)
	hosts := filepath.Join(dir, "etc/hosts")
	if err := os.WriteFile(hosts, []byte(blocked), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := identify(int(root.Fd()), &agentv1.RenewRequest{MachineId: "0123", Hostname: "m-1"}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(hosts); err != nil || !strings.HasPrefix(string(got), blocked) || !strings.HasSuffix(string(got), "127.0.1.1 m-1\n") {
			t.Fatalf("the file has %d bytes, %v", len(got), err)
		}
		if info, err := os.Stat(hosts); err != nil {
			t.Fatal(err)
		} else if when := time.Unix(7, 0); !info.ModTime().Equal(when) {
			os.Chtimes(hosts, when, when)
			continue
		}
		return
	}
	t.Error("the second renewal wrote the file again")
}

func TestHostsFileKeepsEntries(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"none":              {"", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 m-1\n"},
		"an image's":        {"127.0.0.1\tlocalhost\n10.0.0.9 db # ours\n", "127.0.0.1\tlocalhost\n10.0.0.9 db # ours\n127.0.1.1 m-1\n"},
		"another machine's": {"127.0.0.1 localhost\n127.0.1.1 template\n", "127.0.0.1 localhost\n127.0.1.1 m-1\n"},
		"its own":           {"127.0.0.1 localhost\n127.0.1.1 m-1\n", "127.0.0.1 localhost\n127.0.1.1 m-1\n"},
		"no last newline":   {"127.0.0.1 localhost", "127.0.0.1 localhost\n127.0.1.1 m-1\n"},
		"comments":          {"# localhost\n\n::1 localhost\n", "# localhost\n\n::1 localhost\n127.0.1.1 m-1\n"},
		"only a comment":    {"# localhost\n", "# localhost\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 m-1\n"},
	} {
		got := withName(c.before, "m-1")
		if got != c.after {
			t.Errorf("%s: got %q, want %q", name, got, c.after)
		}
		if again := withName(got, "m-1"); again != got {
			t.Errorf("%s: second run: got %q", name, again)
		}
	}
}

func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 localhost\n127.0.1.1 template\n")
	f.Fuzz(func(t *testing.T, hosts string) {
		got := withName(hosts, "m-1")
		if strings.Count(got, ownAddress+" m-1\n") != 1 || !strings.HasSuffix(got, "\n") || withName(got, "m-1") != got {
			t.Errorf("%q became %q", hosts, got)
		}
	})
}
