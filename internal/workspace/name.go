package workspace

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// idForm is what ids look like. A name of this form is taken for an id.
var idForm = regexp.MustCompile("^(" + store.WorkspacePrefix + "|" + store.VMPrefix + ")[0-9a-f]{12}$")

// IDOf gives the id of the workspace that has a name. What looks like an id, or is nobody's name, is
// given as it is. Precondition: several workspaces have the name.
func (m *Manager) IDOf(ctx context.Context, name string) (string, error) {
	if checkName(name) != nil || idForm.MatchString(name) {
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

// forkNames gives names to forks: the one that was asked for, if it is for one; else that with a
// number, or that of their source with a number. Numbers that are taken are left out. Without
// either, forks have no names.
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

// firstRunes gives as many characters of the beginning of a text.
func firstRunes(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most])
}
