//go:build machine

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replaceReader opens files in the workspace until /tmp/end exists, and at least 10,000 times. It
// prints a line when it has begun, and then how often a file was missing. It also prints the
// numbers of inotify's events in the workspace: files that appeared, and files that went away.
const replaceReader = `
import ctypes, json, os, struct
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, b"/workspace", 0x40 | 0x80 | 0x100 | 0x200) > 0
r = {"opened": 0, "missing": 0, "came": 0, "went": []}
print("reading", flush=True)
while r["opened"] < 10000 or not os.path.exists("/tmp/end"):
    for name in "plain", "linked", "link":
        try:
            os.close(os.open("/workspace/" + name, os.O_RDONLY))
        except FileNotFoundError:
            r["missing"] += 1
        r["opened"] += 1
    try:
        b = os.read(watch, 65536)
    except BlockingIOError:
        continue
    while b:
        _, mask, _, n = struct.unpack("iIII", b[:16])
        name, b = b[16:16+n].rstrip(b"\0").decode(), b[16+n:]
        if mask & (0x80 | 0x100): r["came"] += 1
        else: r["went"].append("%s %x" % (name, mask))
print(json.dumps(r))
`

// TestReplacedFileIsNeverMissing reads files inside the machine while patches and pushes replace
// them. One file has lost its first name, and another one is a symbolic link.
func TestReplacedFileIsNeverMissing(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	p.shell(id, "echo text-0 >plain; echo text-0 >first; ln first linked; rm first; ln -s plain link")
	reader := p.start("workspace", "exec", id, "--quiet", "--timeout-seconds=280", "--", "python3", "-c", replaceReader)
	reader.says("reading")

	host := t.TempDir()
	for i := range 30 {
		if i%2 == 0 {
			var patch strings.Builder
			for _, name := range []string{"plain", "linked"} {
				fmt.Fprintf(&patch, "--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1 @@\n-text-%[2]d\n+text-%[3]d\n", name, i, i+1)
			}
			p.must("workspace", "patch", "apply", id, "--patch", patch.String())
			continue
		}
		for _, name := range []string{"plain", "linked"} {
			if err := os.WriteFile(filepath.Join(host, name), fmt.Appendf(nil, "text-%d\n", i+1), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(host, "link")
		os.Remove(link)
		if err := os.Symlink([]string{"plain", "linked"}[i/2%2], link); err != nil {
			t.Fatal(err)
		}
		p.must("workspace", "sync", "push", id, host)
	}
	p.shell(id, "touch /tmp/end")
	var r struct {
		Opened, Missing, Came int
		Went                  []string
	}
	if end := reader.end(); end.code != 0 || json.Unmarshal([]byte(end.stdout), &r) != nil {
		t.Fatalf("the reader: %+v", end)
	}
	if r.Opened < 10_000 || r.Missing > 0 || r.Came < 30 || len(r.Went) > 0 {
		t.Errorf("%+v", r)
	}
	if got := p.shell(id, "cat plain linked link; ls -A"); got != strings.Repeat("text-30\n", 3)+"link\nlinked\nplain\n" {
		t.Errorf("the files are %q", got)
	}
}
