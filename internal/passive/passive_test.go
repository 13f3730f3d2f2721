package passive

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHeader(t *testing.T) {
	var got bool
	h := Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = Is(r.Context()) }))
	for _, want := range []bool{true, false} {
		ctx := t.Context()
		if want {
			ctx = Context(ctx)
		}
		client := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
		Mark(client)
		server := httptest.NewRequest("GET", "/", nil)
		server.Header = client.Header
		if h.ServeHTTP(httptest.NewRecorder(), server); got != want || Marked(server) != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
