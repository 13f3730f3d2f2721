// Package project finds the git checkout of a directory and reads its HEAD. It treats all files as
// untrusted data.
package project

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// Find returns the root of the checkout that contains folder. The root is the nearest directory
// with a .git, starting at folder itself. If there is no checkout, Find returns "".
func Find(folder string) (string, error) {
	at, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	for {
		if info, err := os.Stat(filepath.Join(at, ".git")); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			return at, nil
		}
		above := filepath.Dir(at)
		if above == at {
			return "", nil
		}
		at = above
	}
}

// TooWide reports whether folder is / or contains the user's home. Such a folder is too large to
// share by default. If the parameter home is empty, the user's home is unknown.
func TooWide(folder, home string) bool {
	folder, home = resolveLinks(folder), resolveLinks(home)
	return folder == "/" || home != "" && (home == folder || strings.HasPrefix(home, folder+"/"))
}

// resolveLinks resolves symbolic links. If there is an error, it returns path unchanged.
func resolveLinks(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// maxName is the maximum length of a project's name, in characters.
const maxName = 40

// Name returns the base name of a directory for agents, quoted and shortened. It replaces unusual
// characters, so that an agent can't mistake the name for the text around it.
func Name(folder string) string {
	name := []rune(unusual().ReplaceAllString(filepath.Base(folder), "_"))
	if len(name) > maxName {
		name = append(name[:maxName], '…')
	}
	return `"` + string(name) + `"`
}

// unusual matches characters that are unusual in names, such as quotes.
var unusual = lazyregexp.New(`[^\pL\pN ._+@()-]`)
