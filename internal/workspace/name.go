package workspace

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
	"github.com/pyro-mcp/pyro/internal/store"
)

// idForm is the form of IDs. A name of this form counts as an ID.
var idForm = lazyregexp.New("^(" + store.WorkspacePrefix + "|" + store.VMPrefix + ")[0-9a-f]{12}$")

// IDOf returns the ID of the workspace with a name. It returns IDs and unknown names unchanged. The
// error has kind Precondition if several workspaces have the name.
func (m *Manager) IDOf(ctx context.Context, name string) (string, error) {
	if checkName(name) != nil || idForm().MatchString(name) {
		return name, nil
	}
	all, err := m.Store.Workspaces(ctx, store.KindWorkspace)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, w := range all {
		if w.ID == name {
			return name, nil
		}
		if w.Name == name {
			ids = append(ids, w.ID)
		}
	}
	switch len(ids) {
	case 0:
		return name, nil
	case 1:
		return ids[0], nil
	}
	return "", fault.New(fault.Precondition, "find workspace", name, "%d workspaces have this name: %s", len(ids), strings.Join(ids, ", ")).WithHint("give an id")
}

// forkNames returns the names of forks. A single fork gets the requested name. Otherwise each fork
// gets the requested name, or else the name of the source, with a number appended. Names that are
// already used are skipped. If both names are empty, the forks have no names.
func (m *Manager) forkNames(ctx context.Context, source, asked string, count int) ([]string, error) {
	names := make([]string, count)
	switch {
	case asked != "" && count == 1:
		names[0] = asked
		return names, nil
	case asked != "":
		source = asked
	case source == "":
		return names, nil
	}
	all, err := m.Store.Workspaces(ctx, store.KindWorkspace)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, w := range all {
		taken[w.Name] = true
	}
	number := 0
	for i := range names {
		for names[i] == "" || taken[names[i]] {
			number++
			suffix := fmt.Sprintf("-%d", number)
			names[i] = firstRunes(source, MaxName-len(suffix)) + suffix
		}
	}
	return names, nil
}

// firstRunes returns at most the first given number of characters of a text.
func firstRunes(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most])
}
