package client

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestTreesInMachine unpacks and packs trees with and without a shared buffer.
func TestTreesInMachine(t *testing.T) {
	for _, share := range []bool{true, false} {
		dir := t.TempDir()
		root, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		c, _ := startWithBufferIn(t, share, files{root: root})
		ctx := within(t)
		want := map[string]string{"a": strings.Repeat("large", 1<<20), "b/c": "small", "b/empty": ""}
		done, err := c.PutTree(ctx, "/opt/app", nil, bytes.NewReader(tarOf(t, want)))
		if err != nil || done != (Unpacked{Files: 3, Bytes: 5<<20 + 5}) {
			t.Fatalf("%+v, %v", done, err)
		}
		var archive bytes.Buffer
		counts, err := c.GetTree(ctx, "/opt/app", ".", &archive)
		names, got := untar(t, archive.Bytes())
		if err != nil || counts != (TreeCounts{Entries: 5}) || strings.Join(names, " ") != "./ ./a ./b/ ./b/c ./b/empty" || got["./a"] != want["a"] {
			t.Errorf("%+v, %v: %q", counts, err, names)
		}
		_, err = c.PutTree(ctx, "/opt/app", &Owner{os.Getuid(), os.Getgid()}, bytes.NewReader(tarOf(t, map[string]string{"b": "x"})))
		if fault.KindOf(err) != fault.Precondition || err.Error() != `unpack "b": it is a directory, and can be replaced only by a directory` {
			t.Errorf("%v", err)
		}
		for name, c2 := range map[string]struct {
			kind fault.Kind
			call func() error
		}{
			"pack nothing":       {fault.NotFound, func() error { _, err := c.GetTree(ctx, "/none", "", io.Discard); return err }},
			"pack a relative":    {fault.Invalid, func() error { _, err := c.GetTree(ctx, "opt", "", io.Discard); return err }},
			"pack as a path":     {fault.Invalid, func() error { _, err := c.GetTree(ctx, "/opt", "a/b", io.Discard); return err }},
			"pack as a parent":   {fault.Invalid, func() error { _, err := c.GetTree(ctx, "/opt", "..", io.Discard); return err }},
			"unpack into a file": {fault.Precondition, func() error { _, err := c.PutTree(ctx, "/opt/app/a", nil, bytes.NewReader(tarOf(t, nil))); return err }},
			"unpack no tar": {fault.Invalid, func() error {
				_, err := c.PutTree(ctx, "/x", nil, strings.NewReader(strings.Repeat("x", 3000)))
				return err
			}},
			"unpack outside": {fault.Invalid, func() error {
				_, err := c.PutTree(ctx, "/x", nil, bytes.NewReader(tarOf(t, map[string]string{"../x": "x"})))
				return err
			}},
			"an impossible owner": {fault.Invalid, func() error {
				_, err := c.PutTree(ctx, "/x", &Owner{1 << 32, 0}, bytes.NewReader(tarOf(t, nil)))
				return err
			}},
		} {
			if err := c2.call(); fault.KindOf(err) != c2.kind {
				t.Errorf("%s: %s: %v", name, fault.KindOf(err), err)
			}
		}
	}
}
