package agent

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// stored is a server with a volume.
type stored struct {
	*Server
	volume *volume.Volume
	place  *withVolume
	dir    string // the root of the volume
	files  string // the workspace
}

// withVolume is an ExecEnv with a volume.
type withVolume struct {
	folder
	volume *volume.Volume
}

func (p *withVolume) Volume() (*volume.Volume, error) {
	if p.volume == nil {
		return nil, ErrNoVolume
	}
	return p.volume, nil
}

func newStored(t testing.TB) *stored {
	t.Helper()
	return storedIn(t, t.TempDir())
}

func storedIn(t testing.TB, dir string) *stored {
	t.Helper()
	s := &stored{dir: dir, files: filepath.Join(dir, volume.FilesFolder)}
	s.volume, _ = openVolume(t, dir, volume.LocalFS)
	s.place = &withVolume{volume: s.volume}
	s.Server = New(s.place, "test")
	t.Cleanup(func() { closeVolume(t, s.volume) })
	return s
}

func openVolume(t testing.TB, dir string, kind volume.FSKind) (*volume.Volume, volume.Recovered) {
	t.Helper()
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, recovered, err := volume.Open(root, kind)
	if err != nil {
		t.Fatal(err)
	}
	return v, recovered
}

func closeVolume(t testing.TB, v *volume.Volume) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	if err := v.Close(ctx); err != nil {
		t.Error(err)
	}
}

// call makes a call on the volume. The test fails if there is no answer within 30 s.
func (s *stored) call(t testing.TB, method, path string, q url.Values, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	renewed := newSession()
	renewed.renewed.Store(true)
	r := httptest.NewRequestWithContext(context.WithValue(ctx, sessionKey{}, renewed), method, path+"?"+q.Encode(), body)
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.volumePaths()[path](rec, r)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("%s %s %v hangs", method, path, q)
	}
	return rec
}

// ended returns the result of a call: its status, and the path and text of its error.
func ended(r *httptest.ResponseRecorder) (status int, path, text string) {
	said := r.Header().Get(content.ErrorField)
	if said == "" {
		said = r.Result().Trailer.Get(content.ErrorField)
	}
	if said == "" && (r.Code != http.StatusOK || r.Result().Trailer.Get(content.WholeField) == "") {
		return 0, "", "the answer has no end"
	}
	if said == "" {
		return r.Code, "", ""
	}
	q, err := url.ParseQuery(said)
	if err != nil {
		return 0, "", err.Error()
	}
	status, _ = strconv.Atoi(q.Get("status"))
	return status, q.Get("path"), q.Get("text")
}

// answerOf returns the status of an answer. It also returns the content, or the text of the error.
func answerOf(r *httptest.ResponseRecorder) (status int, answer string) {
	status, _, answer = ended(r)
	if status == http.StatusOK {
		answer = r.Body.String()
	}
	return status, strings.TrimSpace(answer)
}

func (s *stored) read(t testing.TB, path string) (status int, answer string) {
	t.Helper()
	return answerOf(s.call(t, http.MethodGet, "/volume/file", url.Values{"path": {path}, "offset": {"0"}, "limit": {"0"}}, nil))
}

func (s *stored) write(t testing.TB, path string, mode int, parents bool, content string) (status int, answer string) {
	t.Helper()
	return answerOf(s.call(t, http.MethodPut, "/volume/file", url.Values{
		"path": {path}, "mode": {strconv.Itoa(mode)}, "parents": {strconv.FormatBool(parents)}, "size": {strconv.Itoa(len(content))},
	}, strings.NewReader(content)))
}
