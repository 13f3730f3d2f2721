// Package dirs returns the folders of pyro on the host.
//
// The cache contains data that can be created again: environments, kernels and templates. The state
// contains everything else. Both folders follow the XDG base directory specification.
// PYRO_CACHE_DIR and PYRO_STATE_DIR override them.
package dirs

import (
	"errors"
	"os"
	"path/filepath"
)

// Dirs are the cache folder and the state folder. pyro writes its own files only below them.
type Dirs struct {
	Cache string // default: $XDG_CACHE_HOME/pyro, or ~/.cache/pyro if that variable is not set
	State string // default: $XDG_STATE_HOME/pyro, or ~/.local/state/pyro if that variable is not set
}

// Default returns the folders of the current user. It does not create them.
func Default() (Dirs, error) {
	cache, err := locate("PYRO_CACHE_DIR", "XDG_CACHE_HOME", ".cache")
	if err != nil {
		return Dirs{}, err
	}
	state, err := locate("PYRO_STATE_DIR", "XDG_STATE_HOME", ".local/state")
	return Dirs{Cache: cache, State: state}, err
}

// Of returns the given folders as absolute paths, because supervisors have another working
// directory. If a folder is empty, Of uses its default.
func Of(cache, state string) (d Dirs, err error) {
	if cache == "" || state == "" {
		if d, err = Default(); err != nil {
			return d, err
		}
	}
	if cache != "" {
		if d.Cache, err = filepath.Abs(cache); err != nil {
			return d, err
		}
	}
	if state != "" {
		d.State, err = filepath.Abs(state)
	}
	return d, err
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

// Environments is the folder of images.
func (d Dirs) Environments() string { return filepath.Join(d.Cache, "environments") }

// Kernels is the folder of guest kernels and initramfs images.
func (d Dirs) Kernels() string { return filepath.Join(d.Cache, "kernels") }

// Templates is the folder of saved machines that other machines start from.
func (d Dirs) Templates() string { return filepath.Join(d.Cache, "templates") }

// Prepared is the folder of records about prepared environments.
func (d Dirs) Prepared() string { return filepath.Join(d.Cache, "prepared") }

// Machines is the folder of running machines.
func (d Dirs) Machines() string { return filepath.Join(d.State, "machines") }

// StartSlots is the folder of start slots.
func (d Dirs) StartSlots() string { return filepath.Join(d.State, "turns") }

// Host is the folder of the records of the host agent.
func (d Dirs) Host() string { return filepath.Join(d.State, "host") }

// Workspaces is the folder of workspaces.
func (d Dirs) Workspaces() string { return filepath.Join(d.State, "workspaces") }

// Sessions is the folder of the host's terminal sessions.
func (d Dirs) Sessions() string { return filepath.Join(d.State, "sessions") }

// Images is the folder of images of changed roots. These images can't be created again.
func (d Dirs) Images() string { return filepath.Join(d.State, "images") }

// Volumes is the folder of initial volumes. Workspaces share files with these volumes, so both
// folders are in the state.
func (d Dirs) Volumes() string { return filepath.Join(d.State, "volumes") }

// Changes is the folder of records of changes to the user's folders that are in progress.
func (d Dirs) Changes() string { return filepath.Join(d.State, "changes") }
