package operations

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

func TestLongTextIsCut(t *testing.T) {
	for i := range 8 { // the cuts fall at each position of a character
		whole := strings.Repeat("x", i) + strings.Repeat("üé€😀", 20_000)
		text, truncated := whole, false
		cutOutput(&text, pyro.UTF8, &truncated, agentHead, agentTail)
		head, rest, _ := strings.Cut(text, "\n[")
		note, tail, _ := strings.Cut(rest, "]\n")
		var left int
		fmt.Sscan(note, &left)
		if !truncated || !utf8.ValidString(text) || len(head)+left+len(tail) != len(whole) || !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail) ||
			len(head) < agentHead-3 || len(tail) < agentTail-3 {
			t.Errorf("%d: %d bytes, %q, %d bytes", i, len(head), note, len(tail))
		}
	}
	for n := range 5 {
		text, truncated := base64.StdEncoding.EncodeToString(make([]byte, 100_000+n)), false
		cutOutput(&text, pyro.Base64, &truncated, agentHead, agentTail)
		if b, err := base64.StdEncoding.DecodeString(text); err != nil || !truncated || len(b) != (agentHead+agentTail)/4*3 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
	for _, encoding := range []pyro.Encoding{pyro.UTF8, pyro.Base64} {
		text, truncated := strings.Repeat("eHg=", agentHead), false
		if cutOutput(&text, encoding, &truncated, agentHead, agentTail); len(text) != 4*agentHead || truncated {
			t.Errorf("%s: short text was truncated to %d", encoding, len(text))
		}
	}
}

// TestListsAreCut cuts lists whose entries are large in JSON.
func TestListsAreCut(t *testing.T) {
	bad := strings.Repeat("\x01", 4000) // six bytes each in JSON
	l := &pyro.WorkspaceLogs{Count: 500}
	d := &pyro.WorkspaceDiff{Patch: strings.Repeat(bad, 100)}
	f := &pyro.WorkspaceFiles{Count: 5000}
	for i := range 5000 {
		if i < 500 {
			l.Entries = append(l.Entries, pyro.CommandEntry{Sequence: i + 1, Argv: []string{strings.Repeat("x", 1<<20)}, Stdout: bad, Stderr: bad, StdoutEncoding: pyro.UTF8, StderrEncoding: pyro.UTF8})
		}
		d.Entries = append(d.Entries, diff.Change{Path: bad})
		f.Entries = append(f.Entries, pyro.FileEntry{Path: fmt.Sprint(i)})
	}
	cutLogs(l)
	cutDiff(d)
	short := newFileList(f, false)
	if n := len(l.Entries); n == 0 || n > 100 || l.Entries[n-1].Sequence != 500 {
		t.Errorf("%d commands", n)
	}
	if n := len(d.Entries); n == 0 || n > 100 || !d.Cut || !d.Truncated {
		t.Errorf("%d changes, %t, %t", n, d.Cut, d.Truncated)
	}
	if n := len(short.Entries); n != agentEntries || !short.Truncated || short.Count != 5000 {
		t.Errorf("%d files of %d, %t", n, short.Count, short.Truncated)
	}
	for _, v := range []any{l, d, short, newFileList(f, true)} {
		if text, err := json.Marshal(v); err != nil || len(text) > mcp.MaxResult {
			t.Errorf("%T: %d bytes, %v", v, len(text), err)
		}
	}
}

func TestSummaryKeepsEnd(t *testing.T) {
	a := &pyro.WorkspaceActivity{}
	long := strings.Repeat("\x01", 1000) // six times as much in JSON
	for n := range 100 {
		a.Edits.Recent = append(a.Edits.Recent, pyro.RecentEdit{Path: long, Files: n})
		a.Artifacts.Exports = append(a.Artifacts.Exports, pyro.RecentExport{Path: long, Files: n})
		a.Changes.Entries = append(a.Changes.Entries, pyro.ChangedFile{Path: long, LinesAdded: n})
	}
	cutActivity(a)
	if n := len(a.Edits.Recent); n == 0 || n > 21 || a.Edits.Recent[n-1].Files != 99 {
		t.Errorf("%d edits", n)
	}
	if n := len(a.Artifacts.Exports); n == 0 || n > 21 || a.Artifacts.Exports[n-1].Files != 99 {
		t.Errorf("%d exports", n)
	}
	if n := len(a.Changes.Entries); n == 0 || n > 21 || a.Changes.Entries[0].LinesAdded != 0 || !a.Changes.Cut {
		t.Errorf("%d changes", n)
	}
}
