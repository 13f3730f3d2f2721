package agent

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/window"
)

// filePath is where the content of files is read and written, as plain HTTP bodies.
const filePath = "/file"

// files serves filePath.
func (s *Server) files(w http.ResponseWriter, r *http.Request) {
	if !sessionOf(r.Context()).renewed.Load() {
		http.Error(w, errNotRenewed.Error(), http.StatusPreconditionFailed)
		return
	}
	var err error
	switch r.Method {
	case http.MethodGet:
		err = s.readFile(w, r)
	case http.MethodPut:
		err = s.writeFile(w, r)
	default:
		err = invalid("method must be GET or PUT")
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
	}
}

func (s *Server) readFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	name := q.Get("path")
	offset, err1 := strconv.ParseUint(q.Get("offset"), 10, 63)
	limit, err2 := strconv.ParseUint(q.Get("limit"), 10, 63)
	if err := errors.Join(checkPath(name), err1, err2); err != nil {
		return invalid(err.Error())
	}
	f, err := s.openAt(name, offset)
	if err != nil {
		return err
	}
	defer f.Close()
	var content io.Reader = f
	if limit > 0 {
		content = io.LimitReader(f, int64(limit))
	}
	if worthWindow(f, offset) && s.grant(w, q) {
		defer s.windowInUse.Unlock()
		_, err = window.Send(s.window, content, flusher{w}, r.Body)
	} else {
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{content}, make([]byte, maxFileChunk))
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the stream is reset: what arrived is not the whole
	}
	return nil
}

func (s *Server) writeFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	spec := fileSpec{path: q.Get("path"), makeParents: q.Get("parents") == "true"}
	mode, err1 := strconv.ParseUint(q.Get("mode"), 10, 32)
	size, err2 := strconv.ParseUint(q.Get("size"), 10, 63)
	spec.mode, spec.size = uint32(mode), size
	if err := errors.Join(checkPath(spec.path), err1, err2); err != nil {
		return invalid(err.Error())
	}
	if !namesFile(spec.path) || mode&^0o7777 != 0 {
		return invalid("path must name a file, mode be at most 07777")
	}
	root, err := s.place.Root()
	if err != nil {
		return err
	}
	f, err := newReplacement(root, spec)
	if err != nil {
		return err
	}
	defer f.discard()
	if !s.grant(w, q) {
		if q.Get("window") != "" {
			return errWindowInUse // the body is not the content
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{r.Body}, make([]byte, maxFileChunk))
		return f.finish(err)
	}
	defer s.windowInUse.Unlock()
	_, err = window.Receive(s.window, f, int64(size), r.Body, flusher{w})
	status := http.StatusOK
	if err = f.finish(err); err != nil {
		status = statusOf(err)
		w.Header().Set(http.TrailerPrefix+window.TrailerError, url.QueryEscape(err.Error()))
	}
	w.Header().Set(http.TrailerPrefix+window.TrailerStatus, strconv.Itoa(status))
	return nil
}

var errWindowInUse = connect.NewError(connect.CodeUnavailable, errors.New("the window is in use"))

// worthWindow tells whether enough of a file is left for the window.
func worthWindow(f *os.File, offset uint64) bool {
	info, err := f.Stat()
	return err == nil && uint64(info.Size()) >= offset+window.Worth
}

// grant lets a call that asks for it have the window, unless it is in use, and tells the caller so. Who was granted it has to unlock windowInUse.
func (s *Server) grant(w http.ResponseWriter, q url.Values) bool {
	if q.Get("window") != "1" || s.window == nil || !s.windowInUse.TryLock() {
		return false
	}
	w.Header().Set(window.Header, "1")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	return true
}

// flusher sends everything at once.
type flusher struct{ http.ResponseWriter }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}

// statusOf gives the HTTP status for one of the kernel's errors.
func statusOf(err error) int {
	if e := (*connect.Error)(nil); !errors.As(err, &e) {
		err = pathError(err)
	}
	switch connect.CodeOf(err) {
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeFailedPrecondition:
		return http.StatusConflict
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeUnavailable:
		return http.StatusLocked
	case connect.CodeResourceExhausted:
		return http.StatusInsufficientStorage
	default:
		return http.StatusInternalServerError
	}
}

// namesFile tells whether a path ends in a name.
func namesFile(name string) bool {
	_, last := path.Split(name)
	return last != "" && last != "." && last != ".."
}
