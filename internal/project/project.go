// Package project finds the git checkout that a folder is in, and reads what it has checked out. It starts no git, and takes what it reads as data of others.
package project

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Find gives the root of the checkout that folder is in, which is the nearest folder above with a .git, and "" where there is none.
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

// TooWide tells that folder is the user's home, or has it below it: nobody means all of that by starting a program in it. A home that is "" is not known.
func TooWide(folder, home string) bool {
	folder, home = real(folder), real(home)
	return folder == "/" || home != "" && (home == folder || strings.HasPrefix(home, folder+"/"))
}

// real is a path without links, as far as it is there.
func real(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// maxName bounds the name of a project as agents are told it, in characters.
const maxName = 40

// Name is what agents are told of a folder: how it is called, quoted and short. It is data, and must not read like a part of what is around it.
func Name(folder string) string {
	name := []rune(strange.ReplaceAllString(filepath.Base(folder), "_"))
	if len(name) > maxName {
		name = append(name[:maxName], '…')
	}
	return `"` + string(name) + `"`
}

// strange is what names are seldom made of, such as what would end a quotation.
var strange = regexp.MustCompile(`[^\pL\pN ._+@()-]`)
