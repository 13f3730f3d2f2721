package agent

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/content"
)

// volumePaths returns the handlers for calls on the volume, by path.
func (s *Server) volumePaths() map[string]http.HandlerFunc {
	handlers := map[string]http.HandlerFunc{}
	for path, do := range map[string]func(*volume.Volume, *content.Answer, *http.Request) error{
		"/volume/file": s.volumeFile, "/volume/list": s.volumeList, "/volume/tree": s.volumeTree, "/volume/change": s.volumeChange,
	} {
		handlers[path] = s.serve(func(w *content.Answer, r *http.Request) error { return s.inVolume(w, r, do) })
	}
	return handlers
}

// inVolume handles a call with the function do. It prevents the volume from being unmounted while
// the call runs.
func (s *Server) inVolume(w *content.Answer, r *http.Request, do func(*volume.Volume, *content.Answer, *http.Request) error) error {
	v, err := s.env.Volume()
	if err != nil {
		return err
	}
	done, err := v.Use()
	if err != nil {
		return err
	}
	defer done()
	return do(v, w, r)
}

func (s *Server) volumeFile(v *volume.Volume, w *content.Answer, r *http.Request) error {
	switch r.Method {
	case http.MethodGet:
		return s.readContent(w, r, volume.CheckRelative, v.OpenRegular)
	case http.MethodPut:
		return s.writeContent(w, r, volume.CheckRelative, v.NewReplacement)
	default:
		return errMethod
	}
}

// pathOf checks the path of a call and returns it.
func pathOf(q url.Values) (string, error) {
	name := q.Get("path")
	if err := volume.CheckRelative(name); err != nil {
		return "", invalid(err.Error())
	}
	return name, nil
}

func (s *Server) volumeList(v *volume.Volume, w *content.Answer, r *http.Request) error {
	if r.Method != http.MethodGet {
		return errMethod
	}
	q := r.URL.Query()
	name, err1 := pathOf(q)
	recursive, err2 := strconv.ParseBool(q.Get("recursive"))
	if err := errors.Join(err1, err2); err != nil {
		return invalid(err.Error())
	}
	open := func() (*volume.Lister, error) { return v.List(name, recursive) }
	if q.Get("alone") == "1" {
		open = func() (*volume.Lister, error) { return v.Stat(name) }
	}
	l, err := open()
	if err != nil {
		return err
	}
	defer l.Close()
	return s.generate(w, r, l.Write)
}

func (s *Server) volumeTree(v *volume.Volume, w *content.Answer, r *http.Request) error {
	if r.Method != http.MethodGet {
		return errMethod
	}
	name, err := pathOf(r.URL.Query())
	if err != nil {
		return err
	}
	top, err := v.Open(name)
	if err != nil {
		return err
	}
	defer top.Close()
	return s.generate(w, r, func(to io.Writer) error {
		counts, err := volume.WriteTree(to, top, name)
		w.Trailer(countsTrailer, formatCounts(counts.Entries, counts.Skipped, counts.Changed))
		return err
	})
}

func (s *Server) volumeChange(v *volume.Volume, w *content.Answer, r *http.Request) error {
	if r.Method != http.MethodPut {
		return errMethod
	}
	body, done, err := s.receive(w, r, math.MaxInt64)
	if err != nil {
		return err
	}
	defer done()
	counts, err := v.Change(r.Context(), body)
	if err == nil {
		w.Trailer(countsTrailer, formatCounts(counts.Created, counts.Replaced, counts.Deleted, counts.Bytes))
	}
	return err
}

// formatCounts returns counts as the value of a trailer.
func formatCounts(counts ...int64) string {
	var b []byte
	for i, n := range counts {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// generateBuffer is the size of a write to the link, in bytes.
const generateBuffer = 128 << 10

// generate calls the function produce and sends the content that produce writes. If the call asks
// for the shared buffer and it is free, generate sends the content through it.
func (s *Server) generate(w *content.Answer, r *http.Request, produce func(io.Writer) error) error {
	if s.grant(w, r.URL.Query()) {
		defer s.bufferInUse.Unlock()
		to := sharedbuffer.NewWriter(s.buffer, flusher{w}, r.Body)
		defer to.Free()
		if err := produce(to); err != nil {
			return err
		}
		return to.Close()
	}
	to := bufio.NewWriterSize(struct{ io.Writer }{w}, generateBuffer)
	if err := produce(to); err != nil {
		return err
	}
	return to.Flush()
}
