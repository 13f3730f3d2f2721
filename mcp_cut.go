package pyro

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// What an agent is given at once of what can be long. The rest it gets by asking for it.
const (
	agentHead    = 8 << 10   // bytes of the beginning of a text
	agentTail    = 24 << 10  // and of its end
	agentEntries = 1000      // of a list
	agentList    = 128 << 10 // bytes of it
	agentLog     = 2 << 10   // bytes of each end of what a command of the history printed
)

// cutText cuts the middle out of a text, and says so in its place.
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
	*text = fmt.Sprintf("%s\n[%d bytes are left out here; send the output to a file and read that in parts]\n%s", t[:head], end-head, t[end:])
	*truncated = true
}

// cutOutput is cutText for what may be bytes in base64, of which the beginning is left, in whole groups.
func cutOutput(text *string, encoding Encoding, truncated *bool, head, tail int) {
	if encoding == UTF8 {
		cutText(text, truncated, head, tail)
	} else if most := (head + tail) / 4 * 4; len(*text) > most {
		*text, *truncated = (*text)[:most], true
	}
}

func cutRun(r *RunResult) {
	cutOutput(&r.Stdout, r.StdoutEncoding, &r.StdoutTruncated, agentHead, agentTail)
	cutOutput(&r.Stderr, r.StderrEncoding, &r.StderrTruncated, agentHead, agentTail)
}

func cutExec(r *WorkspaceExecResult) {
	cutOutput(&r.Stdout, r.StdoutEncoding, &r.StdoutTruncated, agentHead, agentTail)
	cutOutput(&r.Stderr, r.StderrEncoding, &r.StderrTruncated, agentHead, agentTail)
}

func cutService(l *ServiceLogs) {
	cutOutput(&l.Stdout, l.StdoutEncoding, &l.Truncated, agentHead, agentTail)
	cutOutput(&l.Stderr, l.StderrEncoding, &l.Truncated, agentHead, agentTail)
}

func cutDiff(d *WorkspaceDiff) {
	cutText(&d.Patch, &d.Truncated, agentHead, agentTail)
	if n := fitting(d.Entries); n < len(d.Entries) {
		d.Entries, d.Cut = d.Entries[:n], true
	}
}

// cutNetwork leaves the last records.
func cutNetwork(l *NetworkLog) {
	bytes := 0
	for i := len(l.Records) - 1; i >= 0; i-- {
		if bytes += sizeOf(&l.Records[i]); bytes > agentList || len(l.Records)-i > agentEntries {
			l.Records, l.Truncated = l.Records[i+1:], true
			return
		}
	}
}

// cutLogs leaves the last commands, and the ends of what they printed. How many there are says count.
func cutLogs(l *WorkspaceLogs) {
	bytes := 0
	for i := len(l.Entries) - 1; i >= 0; i-- {
		e := &l.Entries[i]
		cutOutput(&e.Stdout, e.StdoutEncoding, &e.StdoutTruncated, agentLog, agentLog)
		cutOutput(&e.Stderr, e.StderrEncoding, &e.StderrTruncated, agentLog, agentLog)
		for j := range e.Argv {
			var marked bool // by the text itself
			cutText(&e.Argv[j], &marked, agentLog, agentLog)
		}
		if bytes += sizeOf(e); bytes > agentList {
			l.Entries = l.Entries[i+1:]
			return
		}
	}
}

// cutActivity leaves the first paths that differ, and the last of what was done. How much there is says what stands beside.
func cutActivity(a *WorkspaceActivity) {
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

// fitting tells how many entries of a list an agent is given.
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
	text, _ := json.Marshal(v) // it is made of texts and numbers
	return len(text)
}
