package environment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/environment/oci"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// utf8 selects a UTF-8 locale. Without it, programs such as Python assume ASCII.
var utf8 = []string{"LANG=C.UTF-8"}

var standard = []string{"ca-certificates", "curl", "git", "python3"}

// catalogue contains the built-in environments. Every Debian environment has bash and coreutils.
var catalogue = []Environment{
	{Name: "debian:12", Source: SourceDebian, Env: utf8, Description: "Debian 12 with bash, coreutils, git, ca-certificates, curl and python3", Packages: standard},
	{Name: "debian:12-base", Source: SourceDebian, Env: utf8, Description: "Debian 12, minimal: bash, coreutils and apt", Packages: []string{"ca-certificates"}},
	{Name: "debian:12-build", Source: SourceDebian, Env: utf8, Description: "debian:12 with build-essential, pkg-config, python3-venv and python3-pip",
		Packages: append(slices.Clone(standard), "build-essential", "pkg-config", "python3-pip", "python3-venv")},
}

// listAction is the action that lists the known names.
var listAction = fault.Act("vm_list_environments", "pyro env list")

// resolve returns the environment for a name. If the name is not in the catalogue, it is the
// reference of an OCI image. Misspelled names of the catalogue are errors. They are not pulled from
// a registry, because anyone could publish an image under such a name.
func resolve(name string) (Environment, error) {
	for _, entry := range catalogue {
		if entry.Name == name {
			return entry, nil
		}
	}
	if word, _, _ := strings.Cut(name, ":"); !strings.ContainsAny(name, "/@") && distance(word, "debian") <= 2 {
		return Environment{}, fault.New(fault.NotFound, "find environment", name, "no such environment, did you mean %s?", nearest(name)).WithHint("%s", listAction)
	}
	ref, err := oci.Parse(name)
	if err != nil {
		return Environment{}, err
	}
	return Environment{Name: ref.Name(), Source: SourceOCI, Reference: name}, nil
}

// nearest lists the catalogue names that are most similar to name.
func nearest(name string) string {
	entries := slices.Clone(catalogue)
	slices.SortStableFunc(entries, func(a, b Environment) int { return cmp.Compare(distance(a.Name, name), distance(b.Name, name)) })
	near := entries[0].Name
	for _, e := range entries[1:] {
		if distance(e.Name, name) <= distance(entries[0].Name, name)+1 {
			near += fmt.Sprintf(" or %s", e.Name)
		}
	}
	return near
}

// distance returns the edit distance of two strings. A swap of adjacent bytes counts as one edit.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
