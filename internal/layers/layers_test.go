package layers

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/pyro-mcp/pyro"

// floors are the rooms from the ground up. A package may import packages of lower floors, and its own subpackages and siblings within a room.
// The longest matching prefix counts.
var floors = []struct {
	rooms  []string
	reason string
}{
	{[]string{"internal/gen", "internal/fault", "internal/dirs", "internal/durable", "internal/progress", "internal/flock", "internal/guest", "internal/lines", "internal/ring", "internal/socket", "internal/testenv", "internal/version"}, "the ground: imports nothing of pyro but the ground"},
	{[]string{"internal/disk", "internal/agent", "internal/environment", "internal/ignore", "internal/machine", "internal/store"}, "what machines and records are made of: knows no driver"},
	{[]string{"internal/storage", "internal/agenthost", "internal/archive", "internal/confirm", "internal/danger", "internal/diff", "internal/mcp", "internal/patch", "internal/project", "internal/network", "internal/rpc", "internal/secret", "internal/terminal", "internal/transcript"},
		"what workspaces are made of: disks, networks, what is done to trees of files, and to what programs print; and how agents and programs are served"},
	{[]string{"internal/machine/machinetest", "internal/machine/template", "internal/machine/process", "internal/machine/record"}, "what drivers share: the suite that they pass, what they make once, how they keep saved machines"},
	{[]string{"internal/machine/qemu", "internal/machine/gvisor", "internal/machine/host"}, "drivers: know how a machine starts, not who wants it"},
	{[]string{"internal/isolation"}, "picks a driver"},
	{[]string{"internal/supervisor", "internal/doctor", "internal/preparation"}, "own machines and look at hosts through the contracts"},
	{[]string{"internal/workspace", "internal/session"}, "what a workspace is and does, and a session on a terminal of the host"},
	{[]string{""}, "package pyro, the one facade"},
	{[]string{"internal/demo", "internal/hostagent", "internal/ptymcp"}, "what surfaces share: the narrated tours, the service of a host's machines, and terminals as tools for agents"},
	{[]string{"internal/cli", "bench"}, "surfaces: bind operations of package pyro"},
	{[]string{"cmd", "examples", "test", "internal/layers"}, "programs, and tests of the whole"},
}

// exceptions are imports across rooms of one floor, or out of a rule, each with its reason.
var exceptions = map[[2]string]string{
	{"internal/environment", "internal/disk"}:  "images are files of disk's kind",
	{"internal/doctor", "internal/supervisor"}: "it reports what dead owners left",
	{"internal/mcp", "internal/secret"}:        "the token that clients show",
}

func place(pkg string) (floor int, room string) {
	floor = -1
	for i, f := range floors {
		for _, r := range f.rooms {
			if (pkg == r || r != "" && strings.HasPrefix(pkg, r+"/")) && (floor < 0 || len(r) >= len(room)) {
				floor, room = i, r
			}
		}
	}
	return floor, room
}

// imports gives what each package imports of pyro's, and all of them by their folders.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		from := trim(words[0])
		all[from] = nil
		for _, word := range words[1:] {
			if word == module || strings.HasPrefix(word, module+"/") {
				all[from] = append(all[from], trim(word))
			}
		}
	}
	return all
}

func TestImportsRunDownwards(t *testing.T) {
	for from, all := range imports(t) {
		floor, room := place(from)
		if floor < 0 {
			t.Errorf("%s is in no room: give it one here and in docs/design.md", from)
			continue
		}
		for _, to := range all {
			below, other := place(to)
			if below < floor || other == room || floor == 0 && below == 0 || exceptions[[2]string{room, other}] != "" {
				continue
			}
			t.Errorf("%s imports %s, which is not below it (%s)", from, to, floors[floor].reason)
		}
	}
}

// TestTheGuestStaysSmall keeps out of the guest what belongs to the host: it is in every machine, and each of its code paths costs time under emulation.
func TestTheGuestStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"/cmd/pyro-guest").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		for _, heavy := range []string{
			"github.com/spf13/cobra", "github.com/google/go-containerregistry", "github.com/Microsoft/hcsshim",
			module + "/internal/environment", module + "/internal/machine", module + "/internal/agent/client",
		} {
			if dep == heavy || strings.HasPrefix(dep, heavy+"/") {
				t.Errorf("the guest agent links %s", dep)
			}
		}
	}
}

// TestEveryPackageSaysWhatItIs fails for a package without a package comment.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}|{{.Doc}}`, module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		pkg, doc, _ := strings.Cut(strings.TrimSpace(line), "|")
		if doc == "" && !strings.Contains(pkg, "/internal/gen/") {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

func trim(pkg string) string { return strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/") }
