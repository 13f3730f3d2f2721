package agent

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/agent/window"
)

// volumePaths are where the volume is reached, as plain HTTP bodies.
func (s *Server) volumePaths() map[string]http.HandlerFunc {
	handlers := map[string]http.HandlerFunc{}
	for path, serve := range map[string]func(*volume.Volume, http.ResponseWriter, *http.Request) error{
		"/volume/file": s.volumeFile, "/volume/list": s.volumeList, "/volume/tree": s.volumeTree, "/volume/change": s.volumeChange,
	} {
		handlers[path] = func(w http.ResponseWriter, r *http.Request) {
			if admit(w, r) {
				refuse(w, s.inVolume(w, r, serve))
			}
		}
	}
	return handlers
}

// inVolume serves a call while the volume is sure not to be unmounted.
func (s *Server) inVolume(w http.ResponseWriter, r *http.Request, serve func(*volume.Volume, http.ResponseWriter, *http.Request) error) error {
	v, err := s.place.Volume()
	if err != nil {
		return err
	}
	done, err := v.Use()
	if err != nil {
		return err
	}
	defer done()
	return serve(v, w, r)
}

func (s *Server) volumeFile(v *volume.Volume, w http.ResponseWriter, r *http.Request) error {
	switch r.Method {
	case http.MethodGet:
		return s.readContent(w, r, volume.CheckRelative, v.OpenRegular)
	case http.MethodPut:
		return s.writeContent(w, r, volume.CheckRelative, v.NewReplacement)
	default:
		return errMethod
	}
}

// pathOf gives the path that a call is about.
func pathOf(q url.Values) (string, error) {
	name := q.Get("path")
	if err := volume.CheckRelative(name); err != nil {
		return "", invalid(err.Error())
	}
	return name, nil
}

func (s *Server) volumeList(v *volume.Volume, w http.ResponseWriter, r *http.Request) error {
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
	s.generate(w, r, func(to io.Writer) (string, error) { return "", l.Write(to) })
	return nil
}

func (s *Server) volumeTree(v *volume.Volume, w http.ResponseWriter, r *http.Request) error {
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
	s.generate(w, r, func(to io.Writer) (string, error) {
		counts, err := volume.WriteTree(to, top, name)
		return numbers(counts.Entries, counts.Skipped, counts.Changed), err
	})
	return nil
}

func (s *Server) volumeChange(v *volume.Volume, w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPut {
		return errMethod
	}
	body, err := s.receive(w, r, math.MaxInt64)
	if err != nil {
		return err
	}
	defer body.close()
	counts, err := v.Change(r.Context(), body)
	if err == nil {
		w.Header().Set(http.TrailerPrefix+countsTrailer, numbers(counts.Created, counts.Replaced, counts.Deleted, counts.Bytes))
	}
	return body.answer(err)
}

// numbers gives counts as a trailer tells them.
func numbers(counts ...int64) string {
	var b []byte
	for i, n := range counts {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// generateBuffer is how much of what is made while it is sent goes over the link at once.
const generateBuffer = 128 << 10

// generate answers with what is made while it is sent, through the window where the call asks for that, and tells in the trailers how it ended.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, produce func(io.Writer) (counts string, err error)) {
	var counts string
	var err error
	if s.grant(w, r.URL.Query()) {
		to := window.NewWriter(s.window, flusher{w}, r.Body)
		if counts, err = produce(to); err == nil {
			err = to.Close()
		}
		to.Free()
		s.windowInUse.Unlock()
	} else {
		to := bufio.NewWriterSize(struct{ io.Writer }{w}, generateBuffer)
		if counts, err = produce(to); err == nil {
			err = to.Flush()
		}
	}
	if err == nil && counts != "" {
		w.Header().Set(http.TrailerPrefix+countsTrailer, counts)
	}
	conclude(w, err)
}
