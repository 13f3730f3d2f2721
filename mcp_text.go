package pyro

import (
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro/internal/mcp"
)

// shown is a tool's result as a model is shown it. The structure beside it has all of it.
func shown(result any) string {
	var b brief
	switch r := result.(type) {
	case *RunResult:
		b.ended(&r.ExitCode, r.Signal, r.TimedOut, r.OutOfMemory, r.NotRun)
		b.note("isolated by nothing, on the host: %s", r.HostCompatReason)
		b.output(r.Stdout, r.Stderr, r.StdoutEncoding, r.StderrEncoding)
	case *WorkspaceExecResult:
		b.exec(r)
	case *VMExecResult:
		b.exec(&r.WorkspaceExecResult)
	case *FileContent:
		b.content(r)
	case *fileList:
		b.files(r)
	case *WorkspaceDiff:
		b.diff(r)
	case *WorkspaceLogs:
		b.logs(r)
	case *ServiceLogs:
		b.line("%s is %s", r.ServiceName, r.State)
		b.output(r.Stdout, r.Stderr, r.StdoutEncoding, r.StderrEncoding)
	case *ShellOutput:
		b.shell(r)
	default:
		return mcp.Brief(result)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// brief is a text that is put together in lines.
type brief struct{ strings.Builder }

func (b *brief) line(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

// note is a line about a value, unless it is empty.
func (b *brief) note(format, value string) {
	if value != "" {
		b.line(format, value)
	}
}

// block is a text of a program under a name, unless it is empty.
func (b *brief) block(name, content string, encoding Encoding) {
	if content == "" {
		return
	}
	if encoding == Base64 {
		name += " (base64)"
	}
	b.line("%s:", name)
	b.WriteString(content)
	if !strings.HasSuffix(content, "\n") {
		b.WriteByte('\n')
	}
}

func (b *brief) output(stdout, stderr string, outEncoding, errEncoding Encoding) {
	b.block("stdout", stdout, outEncoding)
	b.block("stderr", stderr, errEncoding)
}

// ended tells how a command ended. A nil code is not known.
func (b *brief) ended(code *int, signal int, timedOut, outOfMemory bool, notRun string) {
	fmt.Fprint(b, "exit code ")
	if code == nil {
		fmt.Fprint(b, "unknown")
	} else {
		fmt.Fprint(b, *code)
	}
	if timedOut {
		fmt.Fprint(b, ", timed out")
	} else if signal != 0 {
		fmt.Fprintf(b, ", ended by signal %d", signal)
	}
	if outOfMemory {
		fmt.Fprint(b, ", out of memory")
	}
	if notRun != "" {
		fmt.Fprintf(b, ", not run: %s", notRun)
	}
	b.WriteByte('\n')
}

func (b *brief) exec(r *WorkspaceExecResult) {
	b.ended(&r.ExitCode, r.Signal, r.TimedOut, r.OutOfMemory, r.NotRun)
	if r.OutputHeld {
		b.line("a process in the background still holds the output open")
	}
	b.output(r.Stdout, r.Stderr, r.StdoutEncoding, r.StderrEncoding)
}

func (b *brief) content(r *FileContent) {
	b.WriteString(r.Content)
	switch {
	case r.Truncated:
		b.line("\n[the file goes on: this is the beginning of its %d bytes, see max_bytes]", r.SizeBytes)
	case r.Content == "":
		b.line("[the file is empty]")
	default:
		b.WriteByte('\n') // which shown takes away again
	}
}

func (b *brief) files(r *fileList) {
	b.line("%s: %d", r.Path, r.Count)
	for _, e := range r.Entries {
		switch {
		case e.FileEntry != nil:
			b.line("%s", mcp.Inline(e.FileEntry))
		case e.Kind == kindLetters[DirectoryArtifact]:
			b.line("%s/", oneLine(e.Path))
		case e.Kind == kindLetters[SymlinkArtifact]:
			b.line("%s (link)", oneLine(e.Path))
		default:
			b.line("%s %d bytes", oneLine(e.Path), e.Size)
		}
	}
	if r.LeftOut > 0 {
		b.line("[%d entries of .git are left out]", r.LeftOut)
	}
	if r.Truncated {
		b.line("[there are more: list a folder of them]")
	}
}

// oneLine is a path on one line, whatever it holds.
func oneLine(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", path)
	}
	return path
}

func (b *brief) diff(r *WorkspaceDiff) {
	if !r.Changed {
		b.line("nothing differs from the baseline")
		return
	}
	b.line("%s", mcp.Brief(r.Summary))
	if r.Truncated {
		for _, e := range r.Entries {
			b.line("%s: %s", e.Status, oneLine(e.Path))
		}
	}
	if r.Cut {
		b.line("[more paths differ]")
	}
	b.WriteString(r.Patch)
}

func (b *brief) logs(r *WorkspaceLogs) {
	b.line("%d commands", r.Count)
	for _, e := range r.Entries {
		b.line("\n#%d in %s: %s", e.Sequence, e.Cwd, strings.Join(e.Argv, " "))
		if e.EndedAt == nil && e.Broken == "" {
			b.line("it runs, or its machine ended first")
		} else {
			b.ended(e.ExitCode, e.Signal, e.TimedOut, e.OutOfMemory, e.NotRun)
		}
		b.output(e.Stdout, e.Stderr, e.StdoutEncoding, e.StderrEncoding)
	}
}

func (b *brief) shell(r *ShellOutput) {
	if r.DroppedBytes > 0 {
		b.line("[%d bytes before this are not kept any more]", r.DroppedBytes)
	}
	b.WriteString(r.Output)
	if r.Output != "" && !strings.HasSuffix(r.Output, "\n") {
		b.WriteByte('\n')
	}
	end := string(r.State)
	if r.ExitCode != nil {
		end += fmt.Sprintf(", exit code %d", *r.ExitCode)
	}
	if r.Truncated {
		end += ", there is more to read"
	}
	b.line("[next_cursor %d; %s]", r.NextCursor, end)
}
