package ptymcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestResources reads sessions and screens. The owner is known from a tool call, or is in the URI.
func TestResources(t *testing.T) {
	w := newWorld(t, env{})
	id := w.spawn(t, `printf '\033[?1049h\033[2;3Hhere'; cat`)
	other := w.spawn(t, "echo other; cat", args{"owner": "other"})
	w.until(t, id, "here")
	w.object(t, "pty_read_until", args{"session_id": other, "owner": "other", "pattern": "other"})
	mine, theirs := w.client(t, nil), w.client(t, nil)
	read := func(c *sdk.ClientSession, uri string) (string, error) {
		t.Helper()
		r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil {
			return "", err
		}
		return r.Contents[0].Text, nil
	}
	reads := func(c *sdk.ClientSession, uri, says string, not ...string) {
		t.Helper()
		text, err := read(c, uri)
		if err != nil || !strings.Contains(text, says) {
			t.Errorf("%s: %q, %v", uri, text, err)
		}
		for _, not := range not {
			if strings.Contains(text, not) {
				t.Errorf("%s has %q: %q", uri, not, text)
			}
		}
	}
	refused := func(c *sdk.ClientSession, uri, says string) {
		t.Helper()
		if text, err := read(c, uri); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q, %v", uri, text, err)
		}
	}
	listed, err := mine.ListResources(t.Context(), nil)
	if err != nil || len(listed.Resources) != 1 || listed.Resources[0].URI != "pty://sessions" {
		t.Errorf("%+v, %v", listed, err)
	}
	templates, err := mine.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 3 {
		t.Errorf("%+v, %v", templates, err)
	}
	screen := "pty://session/" + id + "/screen"

	reads(mine, "pty://sessions", "[]", id)
	refused(mine, screen, "has not called a tool with its owner")
	r, err := mine.CallTool(t.Context(), &sdk.CallToolParams{Name: "pty_status", Arguments: args{"session_id": other, "owner": "me"}})
	if err != nil || !r.IsError {
		t.Fatalf("%+v, %v", r, err)
	}
	reads(mine, "pty://sessions", "[]", id)
	called(t, mine, "pty_status", args{"session_id": id})
	reads(mine, "pty://sessions", `"session_id":"`+id+`"`, other)
	reads(mine, screen, "\n  here\n", "\x1b")
	refused(mine, "pty://session/"+other+"/screen", "has not called a tool with its owner")
	reads(theirs, "pty://sessions", "[]", id, other)
	reads(theirs, "pty://sessions?owner=other", other, id)
	reads(theirs, "pty://session/"+other+"/screen?owner=other", "other")
	refused(theirs, "pty://session/"+other+"/screen?owner=me", "has not called a tool with its owner")
	for _, uri := range []string{"pty://session/nobody/screen", "pty://session/1-1-00000000/screen", "pty://session/..%2f../screen", "pty://session//screen"} {
		refused(mine, uri, "")
	}
	refused(mine, "pty://other", "not found")

	called(t, mine, "pty_close", args{"session_id": id})
	refused(mine, screen, "unknown session_id")
	open := w.restarted(t, env{"REQUIRE_OWNER": "0"}).client(t, nil)
	reads(open, "pty://sessions", other)
	reads(open, "pty://session/"+other+"/screen", "other")
}
