package tree

import (
	"slices"

	"golang.org/x/sys/unix"
)

// copyFolder is a folder in the copy. The parent of the top folder is nil.
type copyFolder struct {
	parent *copyFolder
	name   string
}

// names returns the names of the folders that lead from the top to the folder.
func (f *copyFolder) names() (names []string) {
	for at := f; at.parent != nil; at = at.parent {
		names = append(names, at.name)
	}
	slices.Reverse(names)
	return names
}

// links contains the copied files that have more hard links in the source.
type links map[identity]*linked

type linked struct {
	folder *copyFolder
	name   string // the first name of the file in the copy
	left   uint64 // number of hard links that the copier has not found yet
}

// remember records a copied file if it has more than one hard link.
func (f *folderCopy) remember(name string, st *unix.Stat_t) {
	if st.Nlink > 1 {
		f.links[identityOf(st)] = &linked{f.folder, name, uint64(st.Nlink) - 1}
	}
}

// link creates a hard link if the copier has already copied the file under another name. done
// reports whether link created one.
func (f *folderCopy) link(name string, st *unix.Stat_t) (done bool, err error) {
	if st.Nlink == 1 {
		return false, nil
	}
	first := f.links[identityOf(st)]
	if first == nil {
		return false, nil
	}
	folder, err := descend(f.top, first.folder.names())
	if err != nil {
		return false, err
	}
	defer unix.Close(folder)
	if err := unix.Linkat(folder, first.name, f.to, name, 0); err != nil {
		return false, err
	}
	f.stats.Links++
	if first.left--; first.left == 0 {
		delete(f.links, identityOf(st))
	}
	return true, nil
}

// descend opens a folder below top, one name at a time, with O_PATH. It follows no symbolic links.
func descend(top int, names []string) (int, error) {
	at, err := openAt(top, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	for _, name := range names {
		if err != nil {
			break
		}
		parent := at
		at, err = openAt(parent, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		unix.Close(parent)
	}
	return at, err
}
