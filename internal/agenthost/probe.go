package agenthost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits on the check of a server.
const (
	probeTime   = time.Minute
	probeEnd    = 10 * time.Second // time for the server to exit after its input was closed
	probeAnswer = 4 << 20
)

// answer contains the data that a server reports about itself.
type answer struct {
	name, version string
	tools         int
}

// ask starts a server in the same way as its host, and asks for its name and tools. Then it stops
// the server and all its children.
func ask(ctx context.Context, program string, s Server, folder string) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	said := &bounded{most: 4 << 10}
	cmd := command(ctx, program, s.Args...)
	cmd.Dir, cmd.Stderr, cmd.Env = folder, said, append(os.Environ(), s.environment()...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return a, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return a, err
	}
	if err := cmd.Start(); err != nil {
		return a, err
	}
	a, err = listTools(ctx, in, out)
	ended := end(cmd, in)
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("no answer within %.0f s", probeTime.Seconds())
	case err == nil && ended != nil:
		err = fmt.Errorf("it answered, but did not exit cleanly: %w", ended)
	}
	if text := strings.TrimSpace(fault.Printable(string(said.data))); err != nil && text != "" {
		err = fmt.Errorf("%w; stderr: %s", err, shortened(errors.New(text)))
	}
	return a, err
}

// listTools runs an MCP session with the server.
func listTools(ctx context.Context, in io.WriteCloser, out io.ReadCloser) (a answer, err error) {
	c := sdk.NewClient(&sdk.Implementation{Name: "pyro host doctor", Version: "1"}, nil)
	session, err := c.Connect(ctx, &sdk.IOTransport{Reader: out, Writer: in, MaxLineLength: probeAnswer}, nil)
	if err != nil {
		return a, fmt.Errorf("initialize: %w", err)
	}
	defer session.Close()
	if info := session.InitializeResult().ServerInfo; info != nil {
		a.name, a.version = info.Name, info.Version
	}
	listed, err := session.ListTools(ctx, nil)
	if err != nil {
		return a, fmt.Errorf("tools/list: %w", err)
	}
	a.tools = len(listed.Tools)
	return a, nil
}

// end closes the program's input and waits until the program exits. After probeEnd it kills the
// program. In all cases it kills the remaining children.
func end(cmd *exec.Cmd, in io.Closer) error {
	in.Close()
	group := func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	kill := time.AfterFunc(probeEnd, group)
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	kill.Stop()
	group() // kills remaining children; the process is not reaped yet, so its id can't be reused
	return cmd.Wait()
}

// versionOf returns the first line that a program prints when it is asked for its version.
func versionOf(ctx context.Context, program string, args []string) string {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	said := &bounded{most: 4 << 10}
	cmd := command(ctx, program, args...)
	cmd.Stdout = said
	if cmd.Run() != nil {
		return ""
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(said.data), []byte("\n"))
	return shortened(errors.New(string(line)))
}
