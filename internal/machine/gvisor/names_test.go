//go:build machine

package gvisor

import (
	"testing"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// TestNamesOfVolume makes renames and hard links that gVisor's gofer mixes up (runsc/removed.go,
// runsc/link.go).
func TestNamesOfVolume(t *testing.T) {
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: t.TempDir()})
	for name, c := range map[string]struct{ script, want string }{
		"a replaced name is used again": {
			"echo 1 >a; echo 2 >b; rename a b; rename b c; echo 3 >b; ln c d; cat b c d; ls", "3\n1\n1\nb\nc\nd",
		},
		"a removed name is used again": {
			"exec 3<>a; echo 1 >&3; rm a; echo 2 >a; exec 3>&-; rename a b; echo 3 >a; ln b c; cat a b c", "3\n2\n2",
		},
		"both names belong to one file": {
			"echo 1 >a; ln a b; rename a b; ln b c; rm a; echo 2 >>b; stat -c %h c; cat c; ls", "2\n1\n2\nb\nc",
		},
		"the first name is removed": {
			"echo 1 >a; ln a b; cat a; rm a; ln b c; echo 2 >>c; ls -l >/tmp/out; chmod 600 b; stat -c '%h %a' c; cp -al b d; cat d", "1\n2 600\n1\n2",
		},
		"the first name is replaced": {
			"echo 1 >a; ln a b; cat a; echo 2 >c; mv c a; ln b d; stat -c %h d; cat a b d", "1\n2\n2\n1\n1",
		},
		"a symbolic link": {
			"ln -s target a; ln -P a b; readlink b; rm a; ln -P b c; readlink c", "target\ntarget",
		},
		"no name is left": {
			`exec 3<>a; rm a; python3 -c "import os; os.setxattr(3, b'user.x', b'y'); print(*os.listxattr(3))"; ls`, "user.x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			const rename = `rename() { perl -e 'rename $ARGV[0], $ARGV[1] or die $!' "$1" "$2"; }; `
			if got := s.shell(t, "set -e; rm -rf "+workspace+"/*; cd "+workspace+"; "+rename+c.script); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
