//go:build machine

package test

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// hostOddities is a script that creates special files of each type.
const hostOddities = `for d in /root /workspace /dev/shm; do
	mkdir $d/t && cd $d/t && mkdir dir && echo hi >file && mkfifo fifo && ln -s loop loop && ln -s /nowhere dangling &&
	ln -s file link && ln -s dir dirlink && ln -s fifo fifolink && ln -s /dev/zero zerolink &&
	perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un("sock")) or die $!' || exit 1
done`

// TestHostAgentFileErrors makes each file call with invalid targets. The error codes must not
// depend on the isolation level or the file system, and no call must block.
func TestHostAgentFileErrors(t *testing.T) {
	t.Parallel()
	p := workspaces(t).with("PYRO_HOST_TOKEN", hostToken)
	_, address := p.serveHost()
	c, ctx := hostClient(t, address), t.Context()
	if _, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "one"})); err != nil {
		t.Fatal(err)
	}
	made, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "sh", Args: []string{"-c", hostOddities}, TimeoutSec: 120}))
	if err != nil || made.Msg.ExitCode != 0 {
		t.Fatalf("%v %s", err, made.Msg.GetStderr())
	}
	calls := map[string]func(path string) error{
		"read": func(path string) error {
			_, err := c.ReadFile(ctx, connect.NewRequest(&pb.ReadFileRequest{SandboxId: "one", Path: path}))
			return err
		},
		"stream": func(path string) error {
			s, err := c.ReadFileStream(ctx, connect.NewRequest(&pb.ReadFileStreamRequest{SandboxId: "one", Path: path}))
			if err != nil {
				return err
			}
			defer s.Close()
			for s.Receive() {
			}
			return s.Err()
		},
		"write": func(path string) error {
			_, err := c.WriteFile(ctx, connect.NewRequest(&pb.WriteFileRequest{SandboxId: "one", Path: path, Content: []byte("x")}))
			return err
		},
		"list": func(path string) error {
			_, err := c.ListDir(ctx, connect.NewRequest(&pb.ListDirRequest{SandboxId: "one", Path: path}))
			return err
		},
		"make": func(path string) error {
			_, err := c.MakeDir(ctx, connect.NewRequest(&pb.MakeDirRequest{SandboxId: "one", Path: path}))
			return err
		},
		"remove": func(path string) error {
			_, err := c.RemovePath(ctx, connect.NewRequest(&pb.RemovePathRequest{SandboxId: "one", Path: path}))
			return err
		},
	}
	hosts := hostv1connect.NewHostServiceClient(hostHTTP(t), address, connect.WithGRPC())
	rename := func(from, to string) error {
		_, err := hosts.RenamePath(ctx, connect.NewRequest(&hostv1.RenamePathRequest{SandboxId: "one", OldPath: from, NewPath: to}))
		return err
	}
	calls["rename"] = func(path string) error {
		err := rename(path, path+"-new")
		if err == nil {
			err = rename(path+"-new", path)
		}
		return err
	}
	const (
		ok      = connect.Code(0)
		missing = connect.CodeNotFound
		wrong   = connect.CodeFailedPrecondition
		invalid = connect.CodeInvalidArgument
		denied  = connect.CodePermissionDenied
	)
	check := func(call, path string, want connect.Code) {
		t.Helper()
		got := ok
		err := calls[call](path)
		if err != nil {
			got = connect.CodeOf(err)
		}
		if got != want {
			t.Errorf("%s %.80q: %v", call, path, err)
		}
	}
	checkText(t, c)
	names := map[string]map[string]connect.Code{ // error codes by call and path; the calls that modify files are last
		"read":   {"dir": wrong, "dir/": wrong, "fifo": wrong, "fifolink": wrong, "sock": wrong, "zerolink": wrong, "loop": wrong, "dangling": missing, "none": missing, "file": ok, "link": ok, "file/x": missing, "file/": missing},
		"stream": {"dir": wrong, "fifo": wrong, "fifolink": wrong, "sock": wrong, "none": missing, "file": ok},
		"list":   {"file": wrong, "file/": wrong, "fifo": wrong, "fifolink": wrong, "sock": wrong, "zerolink": wrong, "loop": wrong, "dangling": missing, "none": missing, "none/": missing, "file/x": missing, "dir": ok, "dir/": ok, "dirlink": ok, "dirlink/": ok},
		"write":  {"dir": wrong, "dir/": invalid, "fifo": wrong, "sock": wrong, "zerolink": wrong, "loop": wrong, "file/x": wrong, "file/x/y": wrong, "fifo/x": wrong, "loop/x": wrong, "dangling/x": wrong},
		"make":   {"file": wrong, "file/": wrong, "file/x": wrong, "file/x/y": wrong, "fifo": wrong, "fifo/x": wrong, "sock": wrong, "zerolink": wrong, "loop": wrong, "loop/x": wrong, "dangling": wrong, "dir": ok, "dir/": ok, "dirlink": ok, "dirlink/x": ok},
		"rename": {"none": missing, "none/x": missing, "file/x": missing, "loop/x": wrong, "file": ok, "link": ok, "dir": ok, "dirlink": ok, "fifo": ok, "fifolink": ok, "sock": ok, "loop": ok, "dangling": ok, "zerolink": ok},
		"remove": {"none": missing, "none/x": missing, "file/x": missing, "fifo": ok, "sock": ok, "loop": ok, "dangling": ok, "zerolink": ok, "fifolink": ok, "dirlink": ok, "dir": ok},
	}
	for _, at := range []string{"/root/t/", "/workspace/t/", "/dev/shm/t/"} {
		checkRenames(t, at, rename)
		for _, call := range []string{"read", "stream", "list", "write", "make", "rename", "remove"} {
			for name, want := range names[call] {
				check(call, at+name, want)
			}
		}
	}
	long := strings.Repeat("n", 300)
	for call := range calls {
		check(call, "", invalid)
		check(call, "relative", invalid)
		check(call, "/a\x00b", invalid)
		check(call, "/"+long, wrong)
	}
	for _, call := range []string{"read", "stream", "write", "list", "make"} {
		for _, device := range []string{"/dev/zero", "/dev/null", "/dev/tty", "/dev/ptmx"} {
			check(call, device, wrong)
		}
	}
	check("write", "/proc/meminfo", denied)
	check("make", "/proc/new", denied)
	check("remove", "/", invalid)
	check("rename", "/workspace", invalid)
	check("read", "/proc/meminfo", ok)
	calls["read"]("/proc/kmsg") // the result is not checked, because some kernels lack the file
	if _, err := c.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "two", Template: "nosuch"})); connect.CodeOf(err) != missing {
		t.Errorf("an unknown template: %v", err)
	}
}

// checkText checks what a client reads: the types of special files, and the messages of errors.
func checkText(t *testing.T, c hostagentv1connect.HostAgentServiceClient) {
	t.Helper()
	ctx := t.Context()
	listed, err := c.ListDir(ctx, connect.NewRequest(&pb.ListDirRequest{SandboxId: "one", Path: "/root/t"}))
	if err != nil {
		t.Fatal(err)
	}
	begins := map[string]string{"dir": "d", "file": "-", "fifo": "p", "sock": "s", "link": "l"}
	for _, e := range listed.Msg.Entries {
		if want := begins[e.Name]; !strings.HasPrefix(e.Permissions, want) {
			t.Errorf("%s: the permissions are %s, want %s…", e.Name, e.Permissions, want)
		}
		delete(begins, e.Name)
	}
	if len(begins) > 0 {
		t.Errorf("not listed: %v", begins)
	}
	_, err = c.RemovePath(ctx, connect.NewRequest(&pb.RemovePathRequest{SandboxId: "one", Path: "/"}))
	if e := (*connect.Error)(nil); !errors.As(err, &e) || strings.Contains(e.Message(), "invalid_argument") {
		t.Errorf("remove /: %v", err)
	}
	ran, err := c.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "one", Cmd: "echo", Args: []string{strings.Repeat("x", 3<<20)}}))
	if err != nil || ran.Msg.ExitCode != 126 || !strings.Contains(string(ran.Msg.Stderr), "an argument or variable has 3145728 bytes") {
		t.Errorf("an argument of 3 MiB: %+v, %v", ran, err)
	}
}

// checkRenames renames entries of a folder to targets that can't be used. It checks that no target
// is replaced or followed.
func checkRenames(t *testing.T, at string, rename func(from, to string) error) {
	t.Helper()
	other := "/dev/shm/new"
	if strings.HasPrefix(at, "/dev/shm") {
		other = "/root/new"
	}
	for _, c := range []struct {
		from, to string
		want     connect.Code
	}{
		{at + "file", at + "dir", connect.CodeAlreadyExists}, {at + "dir", at + "file", connect.CodeAlreadyExists}, {at + "file", at + "dangling", connect.CodeAlreadyExists},
		{at + "file", at + "file", connect.CodeAlreadyExists}, {at + "fifo", at + "loop", connect.CodeAlreadyExists}, {at + "dirlink", at + "sock", connect.CodeAlreadyExists},
		{at + "none", at + "file", connect.CodeNotFound}, {at + "file", at + "none/x", connect.CodeNotFound}, {at + "file", at + "dangling/x", connect.CodeNotFound},
		{at + "dir", at + "file/x", connect.CodeFailedPrecondition}, {at + "file", at + "loop/x", connect.CodeFailedPrecondition},
		{at + "dir", at + "dir/x", connect.CodeInvalidArgument}, {at + "dir", at + "dirlink/x", connect.CodeInvalidArgument}, {at + "file", other, connect.CodeInvalidArgument},
		{at + "file", "/workspace", connect.CodeInvalidArgument}, {at + "file", "/", connect.CodeInvalidArgument},
	} {
		if err := rename(c.from, c.to); connect.CodeOf(err) != c.want {
			t.Errorf("rename %s to %s: %v", c.from, c.to, err)
		}
	}
}
