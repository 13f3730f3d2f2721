package archive

import (
	"archive/tar"
	"context"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
)

const gitName = ".git"

// chooseGit finds out whether other files must replace the .git of a folder. If so, it removes the
// .git from the folder's content.
func (r *walk) chooseGit(ctx context.Context, in *tree.Folder, content []tree.Entry) []tree.Entry {
	r.gitOf = nil
	i := slices.IndexFunc(content, func(e tree.Entry) bool { return e.Name == gitName })
	if r.git == nil || i < 0 {
		return content
	}
	files, missing := r.git(ctx, in.Path(""))
	if all := r.summary.GitMissing; all == "" {
		r.summary.GitMissing = missing
	} else if missing != "" && len(all) < maxGitMissing {
		r.summary.GitMissing = all + "; " + missing
	}
	if files == nil {
		return content
	}
	r.gitOf, r.gitTime = files, in.Stat.Mtim
	return slices.Delete(content, i, i+1)
}

// writeGit writes the files that replace a .git.
func (r *walk) writeGit(top string) error {
	written := map[string]bool{}
	folder := func(name string) error {
		for _, above := range append(parentsOf(name), name) {
			if written[above] {
				continue
			}
			written[above] = true
			r.summary.Directories++
			if err := r.entry(tar.TypeDir, path.Join(top, above), "", &unix.Stat_t{Mode: 0o755, Mtim: r.gitTime}); err != nil {
				return err
			}
		}
		return nil
	}
	return r.gitOf(r.ctx, func(name, host string, text []byte) error {
		if name == "" {
			return r.text(top, text)
		}
		above := path.Dir(name)
		if name[len(name)-1] == '/' {
			above = path.Clean(name)
		}
		if err := folder(above); err != nil {
			return err
		}
		switch {
		case above == path.Clean(name):
			return nil
		case host == "":
			return r.text(path.Join(top, name), text)
		}
		return r.hostFile(path.Join(top, name), host)
	})
}

// parentsOf returns the folders above a relative path, the highest first. The first one is ".".
func parentsOf(name string) (all []string) {
	for at := name; at != "."; {
		at = path.Dir(at)
		all = append(all, at)
	}
	slices.Reverse(all)
	return all
}

// text writes a file with the given content.
func (r *walk) text(path string, text []byte) error {
	st := &unix.Stat_t{Mode: 0o644, Size: int64(len(text)), Mtim: r.gitTime}
	if err := r.entry(tar.TypeReg, path, "", st); err != nil {
		return err
	}
	r.summary.Files++
	r.summary.Bytes += st.Size
	_, err := r.out.tar.Write(text)
	return err
}

// hostFile writes a regular file that is elsewhere on the host.
func (r *walk) hostFile(path, host string) error {
	fd, err := unix.Open(host, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return at(err, host)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return at(err, host)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return at(errChanged, host)
	}
	return r.opened(fd, path, &st)
}
