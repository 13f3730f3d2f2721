package serve

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestDocs checks that the page lists every operation, that its links work, and that it requests
// nothing from other servers.
func TestDocs(t *testing.T) {
	w := newWorld(t)
	r, err := http.Get(w.url + "/docs")
	w.check(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	w.check(err)
	page := string(text)
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("got %d %v: %s", r.StatusCode, r.Header, page)
	}
	if policy := r.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("got the policy %q", policy)
	}
	for _, wrong := range []string{"<script", "style=", "<style", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page contains %q", wrong)
		}
	}
	for path, item := range w.server.OpenAPI().Paths {
		for _, o := range methodsOf(item) {
			if got := strings.Contains(page, `id="`+o.OperationID+`"`); got == strings.HasPrefix(path, "/v1/capsules") {
				t.Errorf("%s: the page has it: %v", o.OperationID, got)
			}
		}
	}
	links := regexp.MustCompile(`(?:href)="([^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(links) < 50 {
		t.Errorf("the page has only %d links", len(links))
	}
	for _, link := range links {
		if id, ok := strings.CutPrefix(link[1], "#"); ok {
			if !strings.Contains(page, `id="`+id+`"`) {
				t.Errorf("the link %s leads nowhere", link[1])
			}
		} else if got, _ := get(t, w.url+link[1], ""); got != 200 {
			t.Errorf("%s: got %d", link[1], got)
		}
	}
}
