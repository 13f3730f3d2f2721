package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// smuggling contains requests with an ambiguous length. BODY is a request without credentials; HEX
// and SIZE are its length.
var smuggling = map[string]string{
	"chunks and a length":          "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n",
	"no chunks and a length":       "Content-Length: SIZE\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nBODY",
	"two lengths":                  "Content-Length: 0\r\nContent-Length: SIZE\r\n\r\nBODY",
	"two lengths, the other way":   "Content-Length: SIZE\r\nContent-Length: 0\r\n\r\nBODY",
	"a list of lengths":            "Content-Length: 0, SIZE\r\n\r\nBODY",
	"a length with a sign":         "Content-Length: +SIZE\r\n\r\nBODY",
	"a length in hexadecimal":      "Content-Length: 0xHEX\r\n\r\nBODY",
	"a space after the name":       "Content-Length : SIZE\r\n\r\nBODY",
	"a folded header":              "X: a\r\n Content-Length: SIZE\r\n\r\nBODY",
	"an unknown encoding":          "Transfer-Encoding: xchunked\r\nContent-Length: SIZE\r\n\r\nBODY",
	"two encodings":                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\nBODY",
	"a list of encodings":          "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nBODY",
	"an encoding after a tab":      "Transfer-Encoding:\tchunked\r\nContent-Length: SIZE\r\n\r\n0\r\n\r\nBODY",
	"an encoding after a break":    "Transfer-Encoding:\r\n chunked\r\nContent-Length: SIZE\r\n\r\n0\r\n\r\nBODY",
	"an encoding in capitals":      "TRANSFER-ENCODING: CHUNKED\r\nContent-Length: SIZE\r\n\r\n0\r\n\r\nBODY",
	"an underscore in the name":    "Transfer_Encoding: chunked\r\nContent-Length: SIZE\r\n\r\nBODY",
	"a chunk that is too large":    "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nBODY",
	"a chunk with a sign":          "Transfer-Encoding: chunked\r\n\r\n-1\r\nBODY",
	"a chunk of another length":    "Transfer-Encoding: chunked\r\n\r\n1\r\nBODY\r\n0\r\n\r\n",
	"a break in a chunk's header":  "Transfer-Encoding: chunked\r\n\r\n0;\r\nBODY\r\n\r\n",
	"chunks that end with LF":      "Transfer-Encoding: chunked\r\n\r\n0\n\nBODY",
	"a trailer that has a length":  "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: SIZE\r\n\r\nBODY",
	"a break in a header":          "X: a\rBODY\r\n\r\n",
	"a NUL in a header":            "X: a\x00\r\nContent-Length: SIZE\r\n\r\nBODY",
	"no body":                      "\r\nBODY",
	"an upgrade to HTTP/2":         "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nBODY",
	"an upgrade to a WebSocket":    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\nBODY",
	"headers that name the length": "Connection: keep-alive, Content-Length, Transfer-Encoding\r\nContent-Length: SIZE\r\n\r\nBODY",
}

// attack sends the head of a request, an attack, and a last request without credentials. It returns
// the statuses of the answers until the server closes the connection.
func attack(t *testing.T, address, head, attack, body string) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text := strings.NewReplacer("BODY", body, "SIZE", fmt.Sprint(len(body)), "HEX", fmt.Sprintf("%x", len(body))).Replace(attack)
	if _, err := io.WriteString(conn, head+text+"GET /end HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	for from := bufio.NewReader(conn); ; {
		r, err := http.ReadResponse(from, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the server waits for more", attack)
		}
		if err != nil {
			return statuses
		}
		io.Copy(io.Discard, r.Body)
		statuses = append(statuses, r.StatusCode)
	}
}

// TestSmuggling hides requests without credentials in requests with a key. No guest may receive
// them, and the proxy must not reuse a connection to a guest before the previous request is
// complete.
func TestSmuggling(t *testing.T) {
	p := newPreviewed(t)
	var mu sync.Mutex
	var got []string
	p.guest.seen = func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.URL.Path+" "+string(body))
	}
	seen := func() []string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { got = nil }()
		return got
	}
	at, _ := url.Parse(p.url)
	name := "8000-" + p.id + ".localhost:" + p.port
	key := keyHeader + ": " + p.keys["full"] + "\r\n"
	const proper = "Content-Length: SIZE\r\n\r\nBODY"
	hidden := "DELETE /hidden HTTP/1.1\r\nHost: " + name + "\r\n\r\n"
	head := "POST /a HTTP/1.1\r\nHost: " + name + "\r\n" + key
	if statuses, requests := attack(t, at.Host, head, proper, hidden), seen(); fmt.Sprint(statuses) != "[200 404]" || len(requests) != 1 || requests[0] != "POST /a "+hidden {
		t.Fatalf("a request with a length: got %v, the guest %q", statuses, requests)
	}
	if statuses, requests := attack(t, at.Host, head, "Content-Length: 0\r\n\r\nBODY", hidden), seen(); fmt.Sprint(statuses) != "[200 403 404]" || len(requests) != 1 {
		t.Fatalf("two requests: got %v, the guest %q", statuses, requests)
	}
	for what, text := range smuggling {
		statuses := attack(t, at.Host, head, text, hidden)
		for range 2 * 4 { // more requests than connections that wait for one
			if got, text, _ := p.send("GET", p.address("/after"), nil, keyHeader, p.keys["full"]); got != 200 || text != "guest GET /after" {
				t.Errorf("after %s: got %d: %s", what, got, text)
			}
		}
		for _, r := range seen() {
			if r != "GET /after " && !strings.HasPrefix(r, "POST /a ") {
				t.Errorf("%s: got %v, the guest %q", what, statuses, r)
			}
		}
	}

	one := "/v1/sandboxes/" + p.id
	hidden = "DELETE " + one + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	head = "GET " + one + " HTTP/1.1\r\nHost: localhost\r\n" + key
	if statuses := attack(t, at.Host, head, "Content-Length: 0\r\n\r\n"+strings.Replace(hidden, "Host:", key+"Host:", 1), ""); fmt.Sprint(statuses) != "[200 204 404]" {
		t.Errorf("two requests with a key: got %v", statuses)
	}
	one = "/v1/sandboxes/" + p.create().ID
	hidden, head = strings.ReplaceAll(hidden, p.id, one[len("/v1/sandboxes/"):]), strings.ReplaceAll(head, p.id, one[len("/v1/sandboxes/"):])
	for what, text := range smuggling {
		statuses := attack(t, at.Host, head, text, hidden)
		if got := p.call("full", "GET", one, nil, nil); got != 200 {
			t.Fatalf("%s: got %v, and the sandbox %d", what, statuses, got)
		}
	}
}
