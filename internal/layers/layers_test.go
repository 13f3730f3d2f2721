package layers

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/pyro-mcp/pyro"

// layers lists the packages by prefix, the lowest layer first. A package is allowed to import
// packages of lower layers, its own subpackages, and packages with the same prefix. If several
// prefixes match, the longest one applies.
var layers = []struct {
	prefixes []string
	reason   string
}{
	{[]string{"internal/gen", "internal/content", "internal/fault", "internal/dirs", "internal/durable", "internal/progress", "internal/prometheus", "internal/flock", "internal/guest", "internal/lazyregexp", "internal/lines", "internal/passive", "internal/program", "internal/pty", "internal/runes", "internal/socket", "internal/sparse", "internal/sqlite", "internal/testenv", "internal/tracing", "internal/version", "internal/xattr", "web"}, "base packages: import only each other"},
	{[]string{"internal/disk", "internal/agent", "internal/environment", "internal/ignore", "internal/machine", "internal/store"}, "machine packages and records: know no driver"},
	{[]string{"internal/storage", "internal/agenthost", "internal/archive", "internal/confirm", "internal/danger", "internal/diff", "internal/forward", "internal/hostfolder", "internal/hostnet", "internal/mcp", "internal/patch", "internal/project", "internal/network", "internal/rpc", "internal/secret", "internal/terminal"},
		"parts of workspaces: disks, networks, operations on file trees and on program output; and protocols for agents and programs"},
	{[]string{"internal/pull"}, "merges a difference into a folder of the host"},
	{[]string{"internal/machine/machinetest", "internal/machine/template", "internal/machine/process", "internal/machine/record"}, "shared by drivers: the conformance suite, templates, saved machines"},
	{[]string{"internal/machine/qemu", "internal/machine/gvisor", "internal/machine/host"}, "drivers: know how a machine starts, not its owner"},
	{[]string{"internal/isolation"}, "chooses a driver"},
	{[]string{"internal/supervisor", "internal/doctor", "internal/preparation"}, "own machines and examine hosts through the contracts"},
	{[]string{"internal/workspace", "internal/session"}, "workspaces, and sessions on terminals of the host"},
	{[]string{"internal/control"}, "the control plane: knows hosts by RPC alone"},
	{[]string{"internal/preview"}, "shows ports of sandboxes to browsers, through the control plane"},
	{[]string{"internal/build", "internal/oneshot", "internal/upkeep"}, "builds environments; runs one command in a machine of its own; prunes, prepares and examines a host"},
	{[]string{""}, "package pyro, the Go SDK"},
	{[]string{"internal/operations"}, "the table of operations: binds package pyro to the protocols"},
	{[]string{"internal/demo", "internal/hostagent", "internal/ptymcp", "internal/serve", "internal/workspaceshell"}, "shared by surfaces: the demo, the host agent, terminals as tools for agents, the HTTP API, and sessions in workspaces"},
	{[]string{"internal/cli", "bench", "client"}, "surfaces: bind operations of package pyro"},
	{[]string{"cmd", "examples", "test", "internal/layers"}, "programs, and tests of the whole"},
}

// exceptions lists imports that are allowed within a layer, each with a reason.
var exceptions = map[[2]string]string{
	{"internal/environment", "internal/disk"}:  "images are files of disk's kind",
	{"internal/doctor", "internal/supervisor"}: "it reports what dead owners left",
	{"internal/mcp", "internal/secret"}:        "the token that clients show",
	{"internal/hostnet", "internal/secret"}:    "passwords in settings of the host",
}

// layerOf returns the index of a package's layer, and the prefix that determines it. Without such a
// prefix, the index is -1.
func layerOf(pkg string) (layer int, prefix string) {
	layer = -1
	for i, l := range layers {
		for _, p := range l.prefixes {
			if (pkg == p || p != "" && strings.HasPrefix(pkg, p+"/")) && (layer < 0 || len(p) >= len(prefix)) {
				layer, prefix = i, p
			}
		}
	}
	return layer, prefix
}

// imports returns, for each folder, the imported packages of this module.
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
		layer, prefix := layerOf(from)
		if layer < 0 {
			t.Errorf("%s is in no layer: add it here and to the table in docs/design.md", from)
			continue
		}
		for _, to := range all {
			below, other := layerOf(to)
			if below < layer || other == prefix || layer == 0 && below == 0 || exceptions[[2]string{prefix, other}] != "" {
				continue
			}
			t.Errorf("%s imports %s, which is not below it (%s)", from, to, layers[layer].reason)
		}
	}
}

// TestGuestStaysSmall checks that the guest program contains no host packages. The guest program is
// part of every machine, and its code runs slowly under emulation.
func TestGuestStaysSmall(t *testing.T) {
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

// TestPackageComments checks that every package has a package comment.
func TestPackageComments(t *testing.T) {
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

// TestHelperImportsOnlyTheProtocol checks that pyro-runsc imports only the protocol package of
// pyro. The program pyro-runsc is a separate module.
func TestHelperImportsOnlyTheProtocol(t *testing.T) {
	const protocol = module + "/internal/machine/gvisor/protocol"
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Dir = "../../runsc"
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the modules of pyro-runsc are not here: %v", err)
	}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		if strings.HasPrefix(dep, module+"/") && dep != protocol && !strings.HasPrefix(dep, module+"/runsc") {
			t.Errorf("pyro-runsc links %s", dep)
		}
	}
}
