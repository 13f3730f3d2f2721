package agent

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/content"
)

// treePath is the path of the calls that pack and unpack a tree at any path of the machine.
const treePath = "/tree"

// tree handles calls to treePath.
func (s *Server) tree(w *content.Answer, r *http.Request) error {
	q := r.URL.Query()
	if err := volume.CheckPath(q.Get("path")); err != nil {
		return invalid(err.Error())
	}
	root, at, done, err := s.env.Files(q.Get("path"))
	if err != nil {
		return &volume.OperationError{Path: q.Get("path"), Err: err}
	}
	defer done()
	switch r.Method {
	case http.MethodGet:
		if q.Get("list") == "1" {
			return s.packList(w, r, root, at)
		}
		return s.pack(w, r, root, at)
	case http.MethodPut:
		return s.unpack(w, r, root, at)
	default:
		return errMethod
	}
}

// pack sends a file or folder as a tar archive.
func (s *Server) pack(w *content.Answer, r *http.Request, root int, at string) error {
	as := r.URL.Query().Get("as")
	if as == "" {
		as = path.Base(at)
	}
	if as == "/" {
		as = "."
	}
	if as != "." && volume.CheckRelative(as) != nil || strings.Contains(as, "/") {
		return invalid("as must be a single name")
	}
	return s.generate(w, r, func(to io.Writer) error {
		counts, err := volume.Pack(to, root, at, as)
		w.Trailer(countsTrailer, formatCounts(counts.Entries, counts.Skipped, counts.Changed))
		return err
	})
}

// packList sends the entries that a list names as a tar archive.
func (s *Server) packList(w *content.Answer, r *http.Request, root int, list string) error {
	return s.generate(w, r, func(to io.Writer) error {
		counts, err := volume.PackList(to, root, list)
		w.Trailer(countsTrailer, formatCounts(counts.Entries, counts.Skipped, counts.Changed))
		return err
	})
}

// unpack unpacks a tar archive below a folder.
func (s *Server) unpack(w *content.Answer, r *http.Request, root int, at string) error {
	owner, err := ownerOf(r.URL.Query())
	if err != nil {
		return invalid(err.Error())
	}
	body, done, err := s.receive(w, r, math.MaxInt64)
	if err != nil {
		return err
	}
	defer done()
	c, err := volume.Unpack(r.Context(), root, at, body, owner)
	if err == nil {
		w.Trailer(countsTrailer, formatCounts(c.Files, c.Folders, c.Links, c.Replaced, c.Bytes, c.Skipped, c.Lost))
	}
	return err
}

// ownerOf returns the owner in a query, or nil if it has none.
func ownerOf(q url.Values) (*volume.Owner, error) {
	if !q.Has("uid") && !q.Has("gid") {
		return nil, nil
	}
	uid, err1 := content.Number(q, "uid")
	gid, err2 := content.Number(q, "gid")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if max(uid, gid) >= math.MaxUint32 {
		return nil, fmt.Errorf("uid and gid must be less than %d", uint32(math.MaxUint32))
	}
	return &volume.Owner{UID: int(uid), GID: int(gid)}, nil
}
