package client

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestCutVolume breaks the link in random ways. It checks that reads return correct data without
// duplicates, or an error. It also checks that a change is applied either completely or not at all.
func TestCutVolume(t *testing.T) {
	dir := memory(t)
	random := rand.New(rand.NewSource(1))
	var wantNames []string
	{
		c := dial(t, startAgentWith(t, dir))
		if _, err := c.Mount(within(t), Mounts{Volume: true}); err != nil {
			t.Fatal(err)
		}
		many := map[string]string{}
		for i := range 2000 {
			many[fmt.Sprintf("many/dir-%d/some file of many %d", i%50, i)] = strings.Repeat(fmt.Sprint(i), 200)
		}
		if _, err := c.Change(within(t), bytes.NewReader(tarOf(t, many)), -1); err != nil {
			t.Fatal(err)
		}
		wantNames = list(t, c, "", true)
	}
	var wantTree []byte
	good, bad := 0, 0
	for seed := range testenv.Seeds(t, 6) {
		link := &cutter{Conn: startAgentWith(t, dir), random: rand.New(rand.NewSource(int64(seed))), most: 1 << 20}
		c := dial(t, link)
		ctx := within(t)
		if _, err := c.Mount(ctx, Mounts{Volume: true}); err != nil {
			t.Fatal(err)
		}
		if wantTree == nil {
			var b bytes.Buffer
			if _, err := c.ReadTree(ctx, "many", &b); err != nil {
				t.Fatal(err)
			}
			wantTree = b.Bytes()
		}
		arm := func(n int) {
			link.mu.Lock()
			defer link.mu.Unlock()
			if link.cuts = n; n > 0 {
				link.arm()
			}
		}
		reported := func(what string, err error, right bool) {
			t.Helper()
			switch {
			case err == nil && right:
				good++
			case err != nil && fault.KindOf(err) == fault.Unavailable:
				bad++
			default:
				t.Errorf("seed %d: %s: %t, %v", seed, what, right, err)
			}
		}
		arm(1)
		var names []string
		err := c.List(ctx, "", true, func(e listing.Entry) error {
			names = append(names, e.Path)
			return nil
		})
		if len(names) > len(wantNames) || strings.Join(names, "\x00") != strings.Join(wantNames[:len(names)], "\x00") {
			t.Fatalf("seed %d: a list of %d that is not the beginning of the list", seed, len(names))
		}
		reported("list", err, len(names) == len(wantNames))
		arm(1)
		var b bytes.Buffer
		_, err = c.ReadTree(ctx, "many", &b)
		if b.Len() > len(wantTree) || !bytes.Equal(b.Bytes(), wantTree[:b.Len()]) {
			t.Fatalf("seed %d: a tree of %d bytes that is not the beginning of the tree", seed, b.Len())
		}
		reported("tree", err, b.Len() == len(wantTree))
		arm(1)
		big := map[string]string{"cut/a": strings.Repeat("a", random.Intn(1<<20)), "cut/b": strings.Repeat("b", random.Intn(1<<20))}
		_, err = c.Change(ctx, bytes.NewReader(tarOf(t, big)), -1)
		arm(0)
		after := strings.Join(list(t, c, "", true), "\x00")
		isNew := strings.Contains(after, "\x00cut\x00cut/a\x00cut/b")
		if old := after == strings.Join(wantNames, "\x00"); old == isNew {
			t.Errorf("seed %d: after a change: %v, old %t, new %t", seed, err, old, isNew)
		}
		reported("change", err, isNew)
		if isNew {
			if err := os.RemoveAll(filepath.Join(dir, volume.FilesFolder, "cut")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if t.Logf("%d were done, %d cut", good, bad); good < 3 || bad < 5 {
		t.Errorf("%d succeeded, %d were cut: the test covered too little", good, bad)
	}
}

// TestVolumeOfHostileAgent checks that the client returns an error for incomplete or invalid
// responses.
func TestVolumeOfHostileAgent(t *testing.T) {
	var whole bytes.Buffer
	w := listing.NewWriter(&whole)
	w.Add(nil, &listing.Attributes{Kind: listing.Folder}, nil)
	w.Add([]byte("a"), &listing.Attributes{Kind: listing.File}, nil)
	w.Close()
	says := func(body []byte, trailers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Write(body)
			for i := 0; i+1 < len(trailers); i += 2 {
				w.Header().Set(http.TrailerPrefix+trailers[i], trailers[i+1])
			}
		}
	}
	handlers := map[string]http.HandlerFunc{}
	c, err := Dial(within(t), evil(t, func(w http.ResponseWriter, r *http.Request) {
		handlers[strings.TrimPrefix(r.URL.Path, "/volume/")](w, r)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := within(t)
	for name, x := range map[string]struct {
		list, tree, change http.HandlerFunc
		kind               fault.Kind
	}{
		"says nothing": {says(whole.Bytes()), says([]byte("x")), nil, fault.Unavailable},
		"says it went wrong": {says(whole.Bytes(), content.ErrorField, "status=403&text=no+more"), says([]byte("x"), content.ErrorField, "status=403&text=no+more"),
			says(nil, "Counts", "x"), fault.Permission},
		"ends early":   {says(whole.Bytes()[:whole.Len()-2], content.WholeField, "1"), nil, nil, fault.Unavailable},
		"is cut":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, fault.Corrupt},
		"no list":      {says([]byte("list"), content.WholeField, "1"), nil, nil, fault.Corrupt},
		"other counts": {nil, says([]byte("x"), content.WholeField, "1", "Counts", "1 2"), says(nil, content.WholeField, "1", "Counts", "1 2 3"), fault.Corrupt},
		"no counts":    {nil, says([]byte("x"), content.WholeField, "1"), says(nil, content.WholeField, "1"), fault.Corrupt},
		"negative":     {nil, says([]byte("x"), content.WholeField, "1", "Counts", "1 -2 3"), says(nil, content.WholeField, "1", "Counts", "1 2 -3 4"), fault.Corrupt},
	} {
		handlers["list"], handlers["tree"], handlers["change"] = x.list, x.tree, x.change
		if x.list != nil {
			if err := c.List(ctx, "", true, func(listing.Entry) error { return nil }); fault.KindOf(err) != x.kind {
				t.Errorf("%s: list: %s: %v", name, fault.KindOf(err), err)
			}
		}
		if x.tree != nil {
			if _, err := c.ReadTree(ctx, "", io.Discard); fault.KindOf(err) != x.kind {
				t.Errorf("%s: tree: %s: %v", name, fault.KindOf(err), err)
			}
		}
		if x.change != nil {
			if _, err := c.Change(ctx, strings.NewReader("x"), 1); fault.KindOf(err) != fault.Corrupt {
				t.Errorf("%s: change: %s: %v", name, fault.KindOf(err), err)
			}
		}
	}
	handlers["change"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(content.ErrorField, url.Values{"status": {"409"}, "path": {strings.Repeat("p", 20_000)}, "text": {"no\x1b[31m"}}.Encode())
		w.WriteHeader(http.StatusConflict)
	}
	_, err = c.Change(ctx, strings.NewReader("x"), 1)
	if fault.KindOf(err) != fault.Precondition || len(err.Error()) > 5000 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%d bytes: %.100s", len(err.Error()), err)
	}
	// If an agent sends data endlessly, the call ends with its context.
	handlers["tree"] = func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, sharedbuffer.Worth)); err != nil {
				return
			}
		}
	}
	if _, err := c.ReadTree(expiring(t, 200*time.Millisecond), "", io.Discard); fault.KindOf(err) != fault.Timeout {
		t.Errorf("a tree without end: %v", err)
	}
}
