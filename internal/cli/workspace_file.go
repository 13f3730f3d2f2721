package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newWorkspaceFile() *cobra.Command {
	return subgroup("file", "List, read and write files of a workspace", newFileList(), newFileRead(), newFileWrite())
}

func newFileList() *cobra.Command {
	req, list := pyro.ListWorkspaceFilesRequest{Path: pyro.WorkspacePath}, &fileList{}
	cmd := onWorkspace("list ID [PATH]", "List files of a running workspace", "", "  pyro workspace file list ws-0123456789ab src --recursive",
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID = args[0]
			if len(args) > 1 {
				req.Path = args[1]
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceFiles, error) {
				req.Each = list.each(cmd)
				return p.ListWorkspaceFiles(ctx, req)
			}, list.end)
		})
	cmd.Flags().BoolVarP(&req.Recursive, "recursive", "r", false, "also list all folders below PATH, except .git")
	cmd.Flags().BoolVar(&req.IncludeGit, "include-git", false, "with --recursive: also list .git")
	return cmd
}

// fileList prints each file as soon as it arrives, because a list can contain a million files.
type fileList struct {
	out   *bufio.Writer
	begun bool
	line  []byte
}

// each returns the function that prints an entry. With --json, it returns nil.
func (l *fileList) each(cmd *cobra.Command) func(*pyro.WorkspaceFiles, pyro.FileEntry) error {
	if wantsJSON(cmd) {
		return nil
	}
	return func(list *pyro.WorkspaceFiles, e pyro.FileEntry) error {
		l.begin(list)
		length := ""
		if e.ArtifactType == pyro.FileArtifact {
			length = size(e.SizeBytes)
		}
		l.line = append(l.line[:0], e.Mode...)
		l.line = padded(append(l.line, "  "...), string(e.ArtifactType), -9)
		l.line = padded(append(l.line, "  "...), length, 7)
		l.line = append(append(l.line, "  "...), quoted(e.Path)...)
		if e.LinkTarget != "" {
			l.line = append(append(l.line, " -> "...), quoted(e.LinkTarget)...)
		}
		_, err := l.out.Write(append(l.line, '\n'))
		return err
	}
}

func (l *fileList) begin(list *pyro.WorkspaceFiles) {
	if !l.begun {
		l.begun, l.out = true, bufio.NewWriterSize(os.Stdout, 64<<10)
		yes := map[bool]string{true: "yes", false: "no"}[list.Recursive]
		fmt.Fprintf(l.out, "%s (recursive: %s)\n", quoted(list.Path), yes)
	}
}

// end flushes the list, then prints the number of omitted entries.
func (l *fileList) end(list *pyro.WorkspaceFiles) error {
	l.begin(list)
	if err := l.out.Flush(); err != nil {
		return err
	}
	if list.LeftOut > 0 {
		fmt.Fprintf(os.Stderr, "pyro: note: %d entries of .git are left out; --include-git lists them\n", list.LeftOut)
	}
	return nil
}

// padded appends text to a line and pads it with spaces. If width is positive, the spaces come
// first. If width is negative, they follow the text.
func padded(line []byte, text string, width int) []byte {
	for range width - len(text) {
		line = append(line, ' ')
	}
	line = append(line, text...)
	for range -width - len(text) {
		line = append(line, ' ')
	}
	return line
}

func newFileRead() *cobra.Command {
	var req pyro.ReadWorkspaceFileRequest
	cmd := onWorkspace("read ID PATH", "Print a text file of a running workspace", "", "  pyro workspace file read ws-0123456789ab src/main.py",
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID, req.Path = args[0], args[1]
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.FileContent, error) {
				return p.ReadWorkspaceFile(ctx, req)
			}, func(f *pyro.FileContent) error { return showContent("workspace-file-read", f) })
		})
	cmd.Flags().Var(positive(&req.MaxBytes, pyro.DefaultMaxBytes), "max-bytes", "largest number of bytes to read")
	return cmd
}

// showContent prints the content of a file unchanged.
func showContent(operation string, f *pyro.FileContent) error {
	if _, err := io.WriteString(os.Stdout, f.Content); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "[%s] workspace_id=%s path=%s size_bytes=%d truncated=%t\n", operation, f.WorkspaceID, quoted(f.Path), f.SizeBytes, f.Truncated)
	return nil
}

func newFileWrite() *cobra.Command {
	var req pyro.WriteWorkspaceFileRequest
	var path string
	cmd := onWorkspace("write ID PATH", "Create or replace a text file of a running workspace",
		"Create or replace a text file atomically. Missing folders are created.",
		`  pyro workspace file write ws-0123456789ab notes.md --text 'to do'
  pyro workspace file write ws-0123456789ab src/main.py --text-file main.py`,
		func(cmd *cobra.Command, args []string) (err error) {
			req.WorkspaceID, req.Path = args[0], args[1]
			if req.Text, err = textOf(cmd, "text", req.Text, path); err != nil {
				return err
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WrittenFile, error) {
				return p.WriteWorkspaceFile(ctx, req)
			}, func(f *pyro.WrittenFile) error {
				_, err := fmt.Printf("wrote %d bytes to %s\n", f.BytesWritten, quoted(f.Path))
				return err
			})
		})
	cmd.Flags().StringVar(&req.Text, "text", "", "the new content")
	cmd.Flags().StringVar(&path, "text-file", "", "read the content from the file of the host at this `PATH` (-: standard input)")
	return cmd
}

// maxTextFile is the maximum number of bytes that are read from a local file or standard input.
// Package pyro would reject larger texts anyway.
const maxTextFile = 80 << 20

// textOf returns the value of the flag --NAME, or the content of the file that the flag --NAME-file
// names.
func textOf(cmd *cobra.Command, name, direct, path string) (string, error) {
	byText, byFile := cmd.Flags().Changed(name), cmd.Flags().Changed(name+"-file")
	if byText == byFile {
		return "", usage(cmd, "give one of --%s and --%s-file", name, name)
	}
	if byText {
		return direct, nil
	}
	from := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", fault.Wrap(err, "read", path)
		}
		defer f.Close()
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, maxTextFile+1))
	if err == nil && len(b) > maxTextFile {
		err = fault.Newf(fault.Exhausted, "it has more than %d bytes", maxTextFile)
	}
	return string(b), fault.Wrap(err, "read", path)
}
