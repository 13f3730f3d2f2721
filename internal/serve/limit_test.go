package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
)

func TestLimiter(t *testing.T) {
	now := time.Now()
	l := newLimiter(2, 3, func() time.Time { return now })
	taken := func(key string) (n int) {
		for {
			wait, ok := l.take(key)
			if !ok {
				if wait <= 0 || wait > time.Second/2 {
					t.Errorf("wait %v", wait)
				}
				return n
			}
			n++
		}
	}
	for i, step := range []struct {
		key  string
		pass time.Duration
		want int
	}{{"a", 0, 3}, {"a", 0, 0}, {"b", 0, 3}, {"a", time.Second, 2}, {"a", 400 * time.Millisecond, 0}, {"a", 100 * time.Millisecond, 1}, {"a", time.Hour, 3}, {"a", -time.Hour, 0}} {
		now = now.Add(step.pass)
		if got := taken(step.key); got != step.want {
			t.Errorf("step %d: got %d, want %d", i, got, step.want)
		}
	}
	l.back("a")
	if got := taken("a"); got != 1 {
		t.Errorf("after a token was returned: got %d", got)
	}
	for i := range 2 * maxBuckets {
		l.take(fmt.Sprint(i))
	}
	if len(l.buckets) != maxBuckets || l.recent.Len() != maxBuckets {
		t.Errorf("there are %d buckets", len(l.buckets))
	}
}

// TestRequestsAreLimited sends more requests than a sender may, and checks that others can still
// send theirs.
func TestRequestsAreLimited(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.server.requests = newLimiter(1, 3, func() time.Time { return now })
	for _, name := range []string{"full", "read", "unknown"} {
		for i := range 5 {
			got := w.call(name, "GET", "/v1/sandboxes", nil, nil)
			if limited := got == 429; limited != (i >= 3) {
				t.Errorf("%s: request %d: got %d", name, i, got)
			}
		}
	}
	var all Error
	if got := w.call("none", "GET", "/v1/sandboxes", nil, &all); got != 429 || all.Detail.Code != "rate_limited" {
		t.Errorf("all unknown senders of an address have one limit: got %d: %+v", got, all)
	}
	if got := w.call("none", "GET", "/health", nil, nil); got != 200 {
		t.Errorf("got %d", got)
	}
	now = now.Add(time.Second)
	if got := w.call("full", "GET", "/v1/sandboxes", nil, nil); got != 200 {
		t.Errorf("got %d", got)
	}
}

// TestPreviewsAreLimited sends more requests to a preview than a client may. A client that may not
// open the preview, clients that may because it is public, and a key have their own limits.
func TestPreviewsAreLimited(t *testing.T) {
	p := newPreviewed(t)
	now := time.Now()
	clock := func() time.Time { return now }
	p.server.requests, p.server.visits = newLimiter(1, 2, clock), newLimiter(1, 4, clock)
	limited := func(what, path string, want int, headers ...string) {
		t.Helper()
		for i := range want + 2 {
			got, text, r := p.send("GET", p.address(path), nil, headers...)
			if (got == 429) != (i >= want) || got == 429 && (r.Header.Get("Retry-After") != "1" || !strings.Contains(text, "Too many requests")) {
				t.Errorf("%s: request %d: got %d: %s", what, i, got, text)
			}
		}
	}
	limited("not allowed", "/", 2)
	now = now.Add(time.Hour)
	limited("guesses of tokens", "/.pyro/open?token=guess", 2)
	before := p.guest.requests()
	limited("a key", "/", 4, keyHeader, p.keys["full"])
	if got := p.guest.requests() - before; got != 4 {
		t.Errorf("the guest got %d requests", got)
	}
	if err := p.control.SetPreview(t.Context(), control.Actor{Type: store.ActorUser, ID: p.owner, TeamID: p.team}, p.id, 8000, true); err != nil {
		t.Fatal(err)
	}
	limited("a public port", "/", 4)
}

// TestBruteForce guesses passwords sequentially and concurrently. The server must check only ten
// guesses per minute.
func TestBruteForce(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	clock := func() time.Time { return now }
	w.server.logins, w.server.addresses = newLimiter(loginRate, loginBurst, clock), newLimiter(addressRate, addressBurst, clock)
	w.member("a", w.team, store.RoleViewer)
	var me Me
	w.call("a", "GET", "/v1/me", nil, &me)
	if got := w.call("a", "POST", "/v1/me/password", map[string]string{"new_password": "correct horse"}, nil); got != 204 {
		t.Fatalf("got %d", got)
	}
	try := func(email, password string, headers ...string) (status, wait int) {
		in, _ := json.Marshal(map[string]string{"email": email, "password": password})
		r := w.browser()
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/v1/auth/login", bytes.NewReader(in))
		r.check(err)
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		answer, err := http.DefaultClient.Do(req)
		r.check(err)
		answer.Body.Close()
		wait, _ = strconv.Atoi(answer.Header.Get("Retry-After"))
		return answer.StatusCode, wait
	}
	for range 12 { // logins that succeed do not count
		if got, _ := try(me.Email, "correct horse"); got != 200 {
			t.Fatalf("got %d", got)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 30 {
		all.Go(func() {
			got, wait := try(me.Email, fmt.Sprintf("guess %d", i))
			mu.Lock()
			defer mu.Unlock()
			if statuses[got]++; got == 429 && (wait < 1 || wait > 6) {
				t.Errorf("Retry-After is %d", wait)
			}
		})
	}
	all.Wait()
	if statuses[401] != 10 || statuses[429] != 20 {
		t.Errorf("got %v", statuses)
	}
	if got, _ := try(me.Email, "correct horse"); got != 429 {
		t.Errorf("the right password among guesses: got %d", got)
	}
	if got, _ := try(me.Email, "correct horse", "X-Forwarded-For", "192.0.2.1"); got != 200 {
		t.Errorf("from another address: got %d", got)
	}
	now = now.Add(6 * time.Second)
	if got, _ := try(me.Email, "correct horse"); got != 200 {
		t.Errorf("later: got %d", got)
	}

	// Each email has its own limit, but the address has a limit for all emails.
	w.server.addresses = newLimiter(addressRate, 3, clock)
	for i := range 5 {
		if got, _ := try(fmt.Sprintf("user%d@example.com", i), "guess"); (got == 429) != (i >= 3) {
			t.Errorf("guess %d: got %d", i, got)
		}
	}
	if got := network("2001:db8::1:2"); got != "2001:db8::" || network("192.0.2.1") != "192.0.2.1" {
		t.Error(got)
	}
}

// TestRequestsInProgress checks the limit of concurrent requests of a team. Streams and other teams
// do not count.
func TestRequestsInProgress(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	var ends []func()
	for range maxInProgress {
		end, ok := w.server.inProgress.add(w.team, maxInProgress)
		if !ok {
			t.Fatal("there are others in progress")
		}
		ends = append(ends, end)
	}
	var e Error
	if got := w.call("full", "GET", "/v1/sandboxes", nil, &e); got != 429 || e.Detail.Code != "rate_limited" {
		t.Errorf("got %d: %+v", got, e)
	}
	if got := w.call("foreign", "GET", "/v1/sandboxes", nil, nil); got != 200 {
		t.Errorf("another team: got %d", got)
	}
	w.events("full", "").next()
	w.dial("full", "/v1/sandboxes/"+id+"/pty", `{"type":"start"}`).expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`)
	ends[0]()
	for range 2 {
		if got := w.call("full", "GET", "/v1/sandboxes", nil, nil); got != 200 {
			t.Errorf("after the end of a request: got %d", got)
		}
	}
}
