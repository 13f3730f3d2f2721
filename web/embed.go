// Package web has the files of the page that "pyro serve" shows. "make web" builds them from the
// sources in this folder.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the built files: index.html, and hashed files in the folder assets.
func Files() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is valid
	}
	return sub
}
