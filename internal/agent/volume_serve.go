package agent

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/agent/window"
)

// volumePaths are where the volume is reached, as plain HTTP bodies.
func (s *Server) volumePaths() map[string]http.HandlerFunc {
	handlers := map[string]http.HandlerFunc{}
	for path, serve := range map[string]func(*Volume, http.ResponseWriter, *http.Request) error{
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
func (s *Server) inVolume(w http.ResponseWriter, r *http.Request, serve func(*Volume, http.ResponseWriter, *http.Request) error) error {
	v, err := s.place.Volume()
	if err != nil {
		return err
	}
	done, err := v.use()
	if err != nil {
		return err
	}
	defer done()
	return serve(v, w, r)
}

func (s *Server) volumeFile(v *Volume, w http.ResponseWriter, r *http.Request) error {
	switch r.Method {
	case http.MethodGet:
		return s.readContent(w, r, checkInVolume, v.openRegular)
	case http.MethodPut:
		return s.writeContent(w, r, checkInVolume, v.newReplacement)
	default:
		return errMethod
	}
}

// pathOf gives the path that a call is about.
func pathOf(q url.Values) (string, error) {
	name := q.Get("path")
	if err := checkInVolume(name); err != nil {
		return "", invalid(err.Error())
	}
	return name, nil
}

func (s *Server) volumeList(v *Volume, w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return errMethod
	}
	q := r.URL.Query()
	name, err1 := pathOf(q)
	recursive, err2 := strconv.ParseBool(q.Get("recursive"))
	if err := errors.Join(err1, err2); err != nil {
		return invalid(err.Error())
	}
	open := func() (*lister, error) { return v.newLister(name, recursive) }
	if q.Get("alone") == "1" {
		open = func() (*lister, error) { return v.newStat(name) }
	}
	l, err := open()
	if err != nil {
		return err
	}
	defer l.close()
	s.generate(w, r, func(to io.Writer) (string, error) { return "", l.list(to) })
	return nil
}

func (s *Server) volumeTree(v *Volume, w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return errMethod
	}
	name, err := pathOf(r.URL.Query())
	if err != nil {
		return err
	}
	top, err := v.openBeneath(name, os.O_RDONLY|openQuietly, 0)
	if err != nil {
		return err
	}
	defer top.Close()
	s.generate(w, r, func(to io.Writer) (string, error) {
		counts, err := writeTree(to, top, name)
		return numbers(counts.entries, counts.skipped, counts.changed), err
	})
	return nil
}

func (s *Server) volumeChange(v *Volume, w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPut {
		return errMethod
	}
	body, err := s.receive(w, r, math.MaxInt64)
	if err != nil {
		return err
	}
	defer body.close()
	counts, err := v.change(r.Context(), body)
	if err == nil {
		w.Header().Set(http.TrailerPrefix+countsTrailer, numbers(counts.created, counts.replaced, counts.deleted, counts.bytes))
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
