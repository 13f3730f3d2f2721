package operations

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro"
)

// Limits of a tool's result. An agent can get the rest with another call.
const (
	agentHead    = 8 << 10   // bytes at the beginning of a text.
	agentTail    = 24 << 10  // bytes at the end of a text.
	agentEntries = 1000      // entries of a list.
	agentList    = 128 << 10 // bytes of a list.
	agentLog     = 2 << 10   // bytes at each end of the output of a command in the history.
)

// shorten cuts a result to the limits for an agent.
func shorten(result any) {
	switch r := result.(type) {
	case *pyro.RunResult:
		cutCommand(&r.CommandResult)
	case *pyro.WorkspaceExecResult:
		cutCommand(&r.CommandResult)
	case *pyro.VMExecResult:
		cutCommand(&r.CommandResult)
	case *pyro.WorkspaceCommand:
		cutOutput(&r.Stdout, r.StdoutEncoding, &r.StdoutTruncated, agentHead, agentTail)
		cutOutput(&r.Stderr, r.StderrEncoding, &r.StderrTruncated, agentHead, agentTail)
	case *pyro.ServiceLogs:
		cutOutput(&r.Stdout, r.StdoutEncoding, &r.Truncated, agentHead, agentTail)
		cutOutput(&r.Stderr, r.StderrEncoding, &r.Truncated, agentHead, agentTail)
	case *pyro.WorkspaceDiff:
		cutDiff(r)
	case *pyro.NetworkLog:
		cutNetwork(r)
	case *pyro.WorkspaceLogs:
		cutLogs(r)
	case *pyro.WorkspaceActivity:
		cutActivity(r)
	}
}

func cutCommand(r *pyro.CommandResult) {
	cutOutput(&r.Stdout, r.StdoutEncoding, &r.StdoutTruncated, agentHead, agentTail)
	cutOutput(&r.Stderr, r.StderrEncoding, &r.StderrTruncated, agentHead, agentTail)
}

// cutText replaces the middle of a long text with a note that counts the removed bytes.
func cutText(text *string, truncated *bool, head, tail int) {
	t := *text
	if len(t) <= head+tail+200 {
		return
	}
	end := len(t) - tail
	for head > 0 && !utf8.RuneStart(t[head]) {
		head--
	}
	for end < len(t) && !utf8.RuneStart(t[end]) {
		end++
	}
	*text = fmt.Sprintf("%s\n[%d bytes are omitted here; redirect the output to a file and read it in parts]\n%s", t[:head], end-head, t[end:])
	*truncated = true
}

// cutOutput is like cutText, but for output that can be base64. Of base64 it keeps only the
// beginning, in whole groups of four characters.
func cutOutput(text *string, encoding pyro.Encoding, truncated *bool, head, tail int) {
	if encoding == pyro.UTF8 {
		cutText(text, truncated, head, tail)
	} else if most := (head + tail) / 4 * 4; len(*text) > most {
		*text, *truncated = (*text)[:most], true
	}
}

func cutDiff(d *pyro.WorkspaceDiff) {
	cutText(&d.Patch, &d.Truncated, agentHead, agentTail)
	if n := fitting(d.Entries); n < len(d.Entries) {
		d.Entries, d.Cut = d.Entries[:n], true
	}
}

// cutNetwork removes all but the last records.
func cutNetwork(l *pyro.NetworkLog) {
	bytes := 0
	for i := len(l.Records) - 1; i >= 0; i-- {
		if bytes += sizeOf(&l.Records[i]); bytes > agentList || len(l.Records)-i > agentEntries {
			l.Records, l.Truncated = l.Records[i+1:], true
			return
		}
	}
}

// cutLogs removes all but the last commands, and the middle of their output. Count still includes
// all commands.
func cutLogs(l *pyro.WorkspaceLogs) {
	bytes := 0
	for i := len(l.Entries) - 1; i >= 0; i-- {
		e := &l.Entries[i]
		cutOutput(&e.Stdout, e.StdoutEncoding, &e.StdoutTruncated, agentLog, agentLog)
		cutOutput(&e.Stderr, e.StderrEncoding, &e.StderrTruncated, agentLog, agentLog)
		for j := range e.Argv {
			var marked bool // unused, because the text itself says that it was cut
			cutText(&e.Argv[j], &marked, agentLog, agentLog)
		}
		if bytes += sizeOf(e); bytes > agentList {
			l.Entries = l.Entries[i+1:]
			return
		}
	}
}

// cutActivity removes all but the first changed paths, the last edits and the last exports. The
// counts still include the removed entries.
func cutActivity(a *pyro.WorkspaceActivity) {
	if n := fitting(a.Changes.Entries); n < len(a.Changes.Entries) {
		a.Changes.Entries, a.Changes.Cut = a.Changes.Entries[:n], true
	}
	for fitting(a.Edits.Recent) < len(a.Edits.Recent) {
		a.Edits.Recent = a.Edits.Recent[1:]
	}
	for fitting(a.Artifacts.Exports) < len(a.Artifacts.Exports) {
		a.Artifacts.Exports = a.Artifacts.Exports[1:]
	}
}

// fitting returns how many entries of a list fit within the limits.
func fitting[T any](entries []T) int {
	bytes := 0
	for i := range entries {
		if bytes += sizeOf(&entries[i]); bytes > agentList || i == agentEntries {
			return i
		}
	}
	return len(entries)
}

func sizeOf(v any) int {
	text, _ := json.Marshal(v) // strings and numbers can always be marshalled
	return len(text)
}
