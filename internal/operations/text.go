package operations

import (
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// text returns a short form of a result for a model. The structured content has all fields.
func text(result any) string {
	var b brief
	switch r := result.(type) {
	case *pyro.RunResult:
		b.command(&r.CommandResult, r.HostCompatReason)
	case *pyro.WorkspaceExecResult:
		b.command(&r.CommandResult, "")
	case *pyro.VMExecResult:
		b.command(&r.CommandResult, "")
	case *pyro.FileContent:
		b.content(r)
	case *fileList:
		b.files(r)
	case *pyro.WorkspaceDiff:
		b.diff(r)
	case *pyro.WorkspaceLogs:
		b.logs(r)
	case *pyro.WorkspaceCommand:
		b.entry(&r.CommandEntry)
	case *pyro.CommandOutput:
		b.commandOutput(r)
	case *pyro.ServiceLogs:
		b.line("%s is %s", r.ServiceName, r.State)
		b.output(r.Stdout, r.Stderr, r.StdoutEncoding, r.StderrEncoding)
	case *pyro.ShellOutput:
		b.shell(r)
	default:
		return mcp.Brief(result)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// brief builds a text line by line.
type brief struct{ strings.Builder }

func (b *brief) line(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

// block writes the output of a program under a heading, unless it is empty.
func (b *brief) block(name, content string, encoding pyro.Encoding) {
	if content == "" {
		return
	}
	if encoding == pyro.Base64 {
		name += " (base64)"
	}
	b.line("%s:", name)
	b.WriteString(content)
	if !strings.HasSuffix(content, "\n") {
		b.WriteByte('\n')
	}
}

func (b *brief) output(stdout, stderr string, outEncoding, errEncoding pyro.Encoding) {
	b.block("stdout", stdout, outEncoding)
	b.block("stderr", stderr, errEncoding)
}

// ended writes how a command ended. The argument code is nil if the exit code is unknown.
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

// command writes how a command ended, and the command's output. The argument hostCompat is the
// reason why the command ran on the host, or "".
func (b *brief) command(r *pyro.CommandResult, hostCompat string) {
	b.ended(&r.ExitCode, r.Signal, r.TimedOut, r.OutOfMemory, r.NotRun)
	if hostCompat != "" {
		b.line("not isolated, on the host: %s", hostCompat)
	}
	if r.OutputHeld {
		b.line("a process in the background still holds the output open")
	}
	b.output(r.Stdout, r.Stderr, r.StdoutEncoding, r.StderrEncoding)
}

func (b *brief) content(r *pyro.FileContent) {
	b.WriteString(r.Content)
	switch {
	case r.Truncated:
		b.line("\n[cut here: the file has %d bytes, see max_bytes]", r.SizeBytes)
	case r.Content == "":
		b.line("[the file is empty]")
	default:
		b.WriteByte('\n') // the function text removes it
	}
}

func (b *brief) files(r *fileList) {
	b.line("%s: %d", r.Path, r.Count)
	for _, e := range r.Entries {
		switch {
		case e.FileEntry != nil:
			b.line("%s", mcp.Inline(e.FileEntry))
		case e.Kind == kindLetters[pyro.DirectoryArtifact]:
			b.line("%s/", oneLine(e.Path))
		case e.Kind == kindLetters[pyro.SymlinkArtifact]:
			b.line("%s (link)", oneLine(e.Path))
		default:
			b.line("%s %d bytes", oneLine(e.Path), e.Size)
		}
	}
	if r.LeftOut > 0 {
		b.line("[%d entries of .git are left out]", r.LeftOut)
	}
	if r.Truncated {
		b.line("[there are more: list a subfolder]")
	}
}

// oneLine quotes a path that has control characters.
func oneLine(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", path)
	}
	return path
}

func (b *brief) diff(r *pyro.WorkspaceDiff) {
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

func (b *brief) logs(r *pyro.WorkspaceLogs) {
	b.line("%d commands", r.Count)
	for i := range r.Entries {
		b.line("")
		b.entry(&r.Entries[i])
	}
}

func (b *brief) entry(e *pyro.CommandEntry) {
	b.line("#%d in %s: %s", e.Sequence, e.Cwd, strings.Join(e.Argv, " "))
	switch {
	case e.Broken != "":
		b.line("%s: %s", e.State, e.Broken)
	case e.ExitCode == nil:
		b.line("%s", e.State)
	default:
		b.ended(e.ExitCode, e.Signal, e.TimedOut, e.OutOfMemory, e.NotRun)
	}
	b.output(e.Stdout, e.Stderr, e.StdoutEncoding, e.StderrEncoding)
}

func (b *brief) commandOutput(r *pyro.CommandOutput) {
	if r.DroppedBytes > 0 {
		b.line("[%d earlier bytes are gone]", r.DroppedBytes)
	}
	b.output(r.Stdout, r.Stderr, r.StdoutEncoding, r.StderrEncoding)
	end := string(r.State)
	if r.ExitCode != nil {
		end += fmt.Sprintf(", exit code %d", *r.ExitCode)
	}
	if r.Truncated {
		end += ", there is more to read"
	}
	b.line("[next_cursor %s; %s]", r.NextCursor, end)
}

func (b *brief) shell(r *pyro.ShellOutput) {
	if r.DroppedBytes > 0 {
		b.line("[%d earlier bytes are gone]", r.DroppedBytes)
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
