package view

import "io/fs"

// Subtree returns the part of t below the directory folder.
func Subtree(t Tree, folder string) Tree {
	if folder == "." {
		return t
	}
	return subtree{t, folder}
}

type subtree struct {
	tree   Tree
	folder string
}

func (b subtree) path(name string) string {
	if name == "." {
		return b.folder
	}
	return b.folder + "/" + name
}

func (b subtree) Open(name string) (fs.File, error) {
	f, err := b.tree.Open(b.path(name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if name != "." {
		return f, nil
	}
	stat, err := b.Lstat(name)
	if err == nil && !stat.IsDir() {
		return f, nil
	}
	f.Close()
	return &folder{info: stat, path: name, list: b.ReadDir}, err
}

func (b subtree) Lstat(name string) (fs.FileInfo, error) {
	stat, err := b.tree.Lstat(b.path(name))
	if err == nil && name == "." {
		stat = named{stat, name}
	}
	return stat, pathError("lstat", name, err)
}

func (b subtree) ReadLink(name string) (string, error) {
	target, err := b.tree.ReadLink(b.path(name))
	return target, pathError("readlink", name, err)
}

func (b subtree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := b.tree.ReadDir(b.path(name))
	return entries, pathError("readdir", name, err)
}

func (b subtree) Xattrs(name string) (map[string]string, error) {
	attributes, err := b.tree.Xattrs(b.path(name))
	return attributes, pathError("getxattr", name, err)
}

// named is a FileInfo with another name.
type named struct {
	fs.FileInfo
	name string
}

func (n named) Name() string { return n.name }
