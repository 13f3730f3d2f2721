package agent

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"sync"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/agent/window"
)

// filePath is where the content of files is read and written, as plain HTTP bodies.
const filePath = "/file"

// files serves filePath.
func (s *Server) files(w http.ResponseWriter, r *http.Request) {
	if admit(w, r) {
		refuse(w, s.file(w, r))
	}
}

func (s *Server) file(w http.ResponseWriter, r *http.Request) error {
	root, err := s.place.Root()
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return s.readContent(w, r, volume.CheckPath, func(name string) (*os.File, error) { return volume.OpenRegular(root, s.place.Path(name)) })
	case http.MethodPut:
		return s.writeContent(w, r, volume.CheckPath, func(spec volume.FileSpec) (*volume.Replacement, error) {
			spec.Path = s.place.Path(spec.Path)
			return volume.NewReplacement(root, spec)
		})
	case http.MethodDelete:
		return s.remove(root, r.URL.Query().Get("path"))
	default:
		return errMethod
	}
}

var errMethod = invalid("method must be GET, or PUT or DELETE where something is changed")

// admit refuses a call in a session in which the machine was not renewed.
func admit(w http.ResponseWriter, r *http.Request) bool {
	renewed := sessionOf(r.Context()).renewed.Load()
	if !renewed {
		http.Error(w, errNotRenewed.Error(), http.StatusPreconditionFailed)
	}
	return renewed
}

// refuse answers with an error, where there is one.
func refuse(w http.ResponseWriter, err error) {
	if err == nil {
		return
	}
	path, text := named(err)
	if path != "" {
		w.Header().Set(pathHeader, path)
	}
	http.Error(w, text, statusOf(err))
}

// named gives what an error is about, as headers and trailers tell it, and what else it says.
func named(err error) (path, text string) {
	if r := (*volume.Refusal)(nil); errors.As(err, &r) {
		if err == r {
			return url.QueryEscape(r.Path), r.Err.Error()
		}
		return url.QueryEscape(r.Path), err.Error()
	}
	return "", err.Error()
}

// How the answers of calls tell what they have to tell beside content.
const (
	pathHeader    = "Path"   // of an error: what it is about
	countsTrailer = "Counts" // what was done
)

// chunks are for moving content: most files are small, and new memory costs more than what is moved.
var chunks = sync.Pool{New: func() any { return new([maxFileChunk]byte) }}

func copyChunks(to io.Writer, from io.Reader) (int64, error) {
	chunk := chunks.Get().(*[maxFileChunk]byte)
	defer chunks.Put(chunk)
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, chunk[:])
}

// readContent gives the content of a regular file, which open opens.
func (s *Server) readContent(w http.ResponseWriter, r *http.Request, check func(path string) error, open func(path string) (*os.File, error)) error {
	q := r.URL.Query()
	name := q.Get("path")
	offset, err1 := strconv.ParseUint(q.Get("offset"), 10, 63)
	limit, err2 := strconv.ParseUint(q.Get("limit"), 10, 63)
	if err := errors.Join(check(name), err1, err2); err != nil {
		return invalid(err.Error())
	}
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(int64(offset), io.SeekStart); err != nil {
		return err
	}
	var content io.Reader = prompt{f}
	if limit > 0 {
		content = io.LimitReader(content, int64(limit))
	}
	if worthWindow(f, offset) && s.grant(w, q) {
		defer s.windowInUse.Unlock()
		_, err = window.Send(s.window, content, flusher{w}, r.Body)
	} else {
		_, err = copyChunks(w, content)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the stream is reset: what arrived is not the whole
	}
	return nil
}

// writeContent replaces a file, which begin begins.
func (s *Server) writeContent(w http.ResponseWriter, r *http.Request, check func(path string) error, begin func(volume.FileSpec) (*volume.Replacement, error)) error {
	q := r.URL.Query()
	spec := volume.FileSpec{Path: q.Get("path"), MakeParents: q.Get("parents") == "true"}
	mode, err1 := strconv.ParseUint(q.Get("mode"), 10, 32)
	size, err2 := strconv.ParseInt(q.Get("size"), 10, 64)
	spec.Mode, spec.Size = uint32(mode), uint64(size)
	if size < 0 {
		size, spec.Size = math.MaxInt64, volume.UnknownSize
	}
	if err := errors.Join(check(spec.Path), err1, err2); err != nil {
		return invalid(err.Error())
	}
	if !namesFile(spec.Path) || mode&^0o7777 != 0 {
		return invalid("path must name a file, mode be at most 07777")
	}
	f, err := begin(spec)
	if err != nil {
		return err
	}
	defer f.Discard()
	body, err := s.receive(w, r, size)
	if err != nil {
		return err
	}
	defer body.close()
	if _, err = copyChunks(f, body); err == window.ErrBroken {
		err = volume.ErrLength
	}
	return body.answer(f.Finish(r.Context(), err))
}

// received is the content that a call brings: its body, or what its body says of the window.
type received struct {
	io.Reader
	w      http.ResponseWriter
	window *window.Reader // nil: it does not come through the window
	inUse  *sync.Mutex
}

// receive takes at most limit bytes of content. close has to be called.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, limit int64) (*received, error) {
	q := r.URL.Query()
	if s.grant(w, q) {
		from := window.NewReader(s.window, limit, r.Body, flusher{w})
		return &received{from, w, from, &s.windowInUse}, nil
	}
	if q.Get("window") != "" {
		return nil, errWindowInUse // the body is not the content
	}
	return &received{Reader: r.Body, w: w}, nil
}

func (c *received) close() {
	if c.window != nil {
		c.window.Free()
		c.inUse.Unlock()
	}
}

// answer tells how the call ended, in the trailers where the answer has begun. What it gives is still to be told.
func (c *received) answer(err error) error {
	if c.window == nil {
		return err
	}
	conclude(c.w, err)
	return nil
}

// conclude tells in the trailers how a call ended whose answer has begun.
func conclude(w http.ResponseWriter, err error) {
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
		path, text := named(err)
		w.Header().Set(http.TrailerPrefix+window.TrailerError, url.QueryEscape(text))
		if path != "" {
			w.Header().Set(http.TrailerPrefix+pathHeader, path)
		}
	}
	w.Header().Set(http.TrailerPrefix+window.TrailerStatus, strconv.Itoa(status))
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
	if errors.Is(err, ErrNotReady) {
		return http.StatusPreconditionFailed
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

// prompt reads a file without waiting for more than there is: a file of /proc, such as kmsg, may have
// nothing yet, and ends then.
type prompt struct{ file *os.File }

func (p prompt) Read(b []byte) (n int, err error) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Read(func(fd uintptr) bool {
		for n, err = unix.Read(int(fd), b); err == unix.EINTR; n, err = unix.Read(int(fd), b) {
		}
		return true
	})
	switch {
	case failed != nil:
		return 0, failed
	case err == unix.EAGAIN, err == nil && n <= 0 && len(b) > 0:
		return 0, io.EOF
	case err != nil:
		return 0, &os.PathError{Op: "read", Path: p.file.Name(), Err: err}
	}
	return n, nil
}
