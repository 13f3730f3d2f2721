package content

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestAnswers checks how answers of different lengths end over HTTP/1.1, with and without an error.
func TestAnswers(t *testing.T) {
	encode := func(err error) (int, string) { return http.StatusConflict, err.Error() }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Serve(w, encode, func(a *Answer) error {
			n, err := Number(r.URL.Query(), "n")
			if err != nil {
				return err
			}
			if _, err := a.Write(make([]byte, n)); err != nil {
				return err
			}
			switch r.URL.Query().Get("end") {
			case "fails":
				return errors.New("broken")
			case "dies":
				panic(http.ErrAbortHandler)
			}
			return nil
		})
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	for _, n := range []string{"0", "1", "100000"} {
		for _, end := range []string{"well", "fails", "dies"} {
			resp, err := http.Get(server.URL + "?n=" + n + "&end=" + end)
			if err != nil {
				if end != "dies" {
					t.Errorf("%s bytes, %s: %v", n, end, err)
				}
				continue
			}
			text, failed := Failed(resp)
			got, readErr := io.Copy(io.Discard, resp.Body)
			said, whole, err := End(resp)
			resp.Body.Close()
			switch {
			case end == "well" && (failed || readErr != nil || err != nil || said != "" || !whole || got != map[string]int64{"0": 0, "1": 1, "100000": 100000}[n]),
				end == "fails" && n == "0" && (!failed || text != "broken" || resp.StatusCode != http.StatusConflict),
				end == "fails" && n != "0" && (failed || said != "broken" || whole),
				end == "dies" && whole:
				t.Errorf("%s bytes, %s: %d %q, %d bytes, %v; %q %t %v", n, end, resp.StatusCode, text, got, readErr, said, whole, err)
			}
		}
	}
}

func TestQueries(t *testing.T) {
	if got, err := RangeOf(Range{3, 4}.Query("a b")); err != nil || got != (Range{3, 4}) {
		t.Errorf("%v, %v", got, err)
	}
	f := File{Path: "a/\xff&b", Mode: 0o640, Parents: true, Size: -1}
	if got, err := FileOf(f.Query()); err != nil || got != f {
		t.Errorf("%v, %v", got, err)
	}
	for _, q := range []string{"offset=1", "offset=-1&limit=0", "offset=0&limit=0x1", "offset=0&limit=9223372036854775808"} {
		v, _ := url.ParseQuery(q)
		if _, err := RangeOf(v); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v", q, err)
		}
	}
	for _, q := range []string{"mode=0", "mode=4096&size=0", "mode=-1&size=0", "mode=0&size=x"} {
		v, _ := url.ParseQuery(q)
		if _, err := FileOf(v); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v", q, err)
		}
	}
}

func TestReader(t *testing.T) {
	own := errors.New("own")
	r := &Reader{From: io.MultiReader(strings.NewReader("x"), failing{own})}
	if r.Any() || r.Err() != nil {
		t.Error("Any reported data, or Err an error, before the first read")
	}
	if _, err := io.ReadAll(r); err != own || r.Err() != own || !r.Any() {
		t.Errorf("%v, %v, %t", err, r.Err(), r.Any())
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
