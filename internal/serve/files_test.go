package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRename renames a file with both spellings of the path, and checks the refusals.
func TestRename(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	for _, path := range []string{"/a", "/taken"} {
		w.upload(id, strings.NewReader(field("path", path)+field("file", path)+"--x--"))
	}
	rename := func(key, base, from, to string, want int, code string) {
		t.Helper()
		var e Error
		got := w.call(key, http.MethodPost, "/v1/"+base+"/"+id+"/files/rename", map[string]string{"old_path": from, "new_path": to}, &e)
		if got != want || e.Detail.Code != code {
			t.Errorf("%s: %.20q to %.20q: got %d %+v, want %d %s", key, from, to, got, e.Detail, want, code)
		}
	}
	rename("read", "sandboxes", "/a", "/b", 403, "forbidden")
	rename("foreign", "sandboxes", "/a", "/b", 404, "not_found")
	rename("full", "sandboxes", "/none", "/b", 404, "not_found")
	rename("full", "sandboxes", "/a", "/taken", 409, "conflict")
	rename("full", "sandboxes", "/a", "", 400, "invalid_request")
	rename("full", "sandboxes", "", "/b", 400, "invalid_request")
	rename("full", "sandboxes", "/a", strings.Repeat("/", 4097), 400, "invalid_request")
	var e Error
	body := map[string]any{"old_path": "/a", "new_path": json.RawMessage(`"/\ud800"`)}
	if got := w.call("full", http.MethodPost, "/v1/sandboxes/"+id+"/files/rename", body, &e); got != 400 || !strings.Contains(fmt.Sprintf("%+v", e), "lone surrogate") {
		t.Errorf("a path that is not text: %d %+v", got, e)
	}
	if _, ok := w.host.File("/a"); !ok {
		t.Error("a refused request had an effect")
	}
	rename("full", "sandboxes", "/a", "/b", 204, "")
	rename("full", "capsules", "/b", "/c", 204, "")
	for path, want := range map[string]string{"/a": "", "/b": "", "/c": "/a", "/taken": "/taken"} {
		if got, _ := w.host.File(path); got != want {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
}
