package tree

import (
	"context"

	"golang.org/x/sys/unix"
)

// Size returns the number of bytes that a tree occupies on disk, and its number of files without
// folders. A file with several hard links counts once. Blocks that several trees share count in
// each tree.
func Size(ctx context.Context, path string) (allocated int64, files int, err error) {
	top, err := openTop(path)
	if err != nil {
		return 0, 0, withPath(err, "measure folder", path)
	}
	s := &sizer{seen: map[identity]bool{}}
	if err := walk(ctx, top, path, s); err != nil {
		return 0, 0, err
	}
	return s.allocated, s.files, nil
}

type sizer struct {
	allocated int64
	files     int
	seen      map[identity]bool // files that have several hard links
}

func (s *sizer) Enter(folder *Folder, content []Entry) error {
	s.allocated += folder.Stat.Blocks * 512
	for _, e := range content {
		if e.Kind == unix.S_IFDIR {
			continue
		}
		st, err := folder.Lstat(e)
		if err != nil {
			return err
		}
		if st.Nlink > 1 {
			if s.seen[identityOf(&st)] {
				continue
			}
			s.seen[identityOf(&st)] = true
		}
		s.allocated += st.Blocks * 512
		s.files++
	}
	return nil
}

func (s *sizer) Leave(*Folder) error { return nil }
