// Package dirs says where pyro keeps things on the host.
//
// The cache holds what can be made again (environments, kernels, templates); the state holds what can't, and what is running.
// Both follow the XDG base directory specification and can be set by PYRO_CACHE_DIR and PYRO_STATE_DIR.
package dirs

import (
	"errors"
	"os"
	"path/filepath"
)

// Dirs are the two folders of one pyro. Everything that pyro writes on its own is below them.
type Dirs struct {
	Cache string // default $XDG_CACHE_HOME/pyro, else ~/.cache/pyro
	State string // default $XDG_STATE_HOME/pyro, else ~/.local/state/pyro
}

// Default gives the folders of the present user. It creates nothing.
func Default() (Dirs, error) {
	cache, err := locate("PYRO_CACHE_DIR", "XDG_CACHE_HOME", ".cache")
	if err != nil {
		return Dirs{}, err
	}
	state, err := locate("PYRO_STATE_DIR", "XDG_STATE_HOME", ".local/state")
	return Dirs{Cache: cache, State: state}, err
}

func locate(own, base, inHome string) (string, error) {
	if dir := os.Getenv(own); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv(base); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pyro"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("no home folder: set HOME, or " + own)
	}
	return filepath.Join(home, inHome, "pyro"), nil
}

// Environments is where images are kept.
func (d Dirs) Environments() string { return filepath.Join(d.Cache, "environments") }

// Kernels is where guest kernels and initramfs images are kept.
func (d Dirs) Kernels() string { return filepath.Join(d.Cache, "kernels") }

// Templates is where started machines are kept that others are restored from.
func (d Dirs) Templates() string { return filepath.Join(d.Cache, "templates") }

// Prepared is where it is noted what was prepared, and from what.
func (d Dirs) Prepared() string { return filepath.Join(d.Cache, "prepared") }

// Machines is where each running machine has its folder.
func (d Dirs) Machines() string { return filepath.Join(d.State, "machines") }

// Turns is where machines that are being started have their locks.
func (d Dirs) Turns() string { return filepath.Join(d.State, "turns") }

// Host is where the host agent has its records.
func (d Dirs) Host() string { return filepath.Join(d.State, "host") }

// Workspaces is where each workspace has its folder.
func (d Dirs) Workspaces() string { return filepath.Join(d.State, "workspaces") }

// Sessions is where each session on a terminal of the host has its folder.
func (d Dirs) Sessions() string { return filepath.Join(d.State, "sessions") }

// Images is where images are kept that were made of what was changed in machines, and can't be made again.
func (d Dirs) Images() string { return filepath.Join(d.State, "images") }

// Volumes is where the volumes are that workspaces begin with. It is with them, since they share its files.
func (d Dirs) Volumes() string { return filepath.Join(d.State, "volumes") }
