package serve

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// Exec describes a program to run.
type Exec struct {
	Cmd        string            `json:"cmd" minLength:"1" maxLength:"65536"`
	Args       []string          `json:"args,omitempty"`
	TimeoutSec int32             `json:"timeout_sec,omitempty" default:"30" minimum:"1" maximum:"86400" doc:"In the foreground: the time limit in seconds"`
	Background bool              `json:"background,omitempty" doc:"Return when the program runs; it continues in the background"`
	Tag        string            `json:"tag,omitempty" maxLength:"256" doc:"In the background: a name for later requests"`
	Envs       map[string]string `json:"envs,omitempty"`
	Cwd        string            `json:"cwd,omitempty"`
}

// Executed is the result of a program. A foreground program sets all fields except PID and Tag. A
// background program sets only PID and Tag.
type Executed struct {
	SandboxID  string   `json:"sandbox_id"`
	Cmd        string   `json:"cmd"`
	Stdout     *string  `json:"stdout,omitempty"`
	Stderr     *string  `json:"stderr,omitempty"`
	ExitCode   *int32   `json:"exit_code,omitempty" doc:"128 + n if signal n ended it; 126 or 127 if it never ran"`
	DurationMS *float64 `json:"duration_ms,omitempty"`
	Encoding   string   `json:"encoding,omitempty" enum:"utf-8,base64" doc:"The encoding of stdout and stderr"`
	PID        *uint32  `json:"pid,omitempty"`
	Tag        string   `json:"tag,omitempty"`
}

// Process is a background program.
type Process struct {
	PID  uint32   `json:"pid"`
	Tag  string   `json:"tag"`
	Cmd  string   `json:"cmd"`
	Args []string `json:"args"`
}

func newProcess(p *pb.ProcessInfo) Process {
	return Process{p.Pid, p.Tag, p.Cmd, append([]string{}, p.Args...)}
}

// Processes lists the running background programs.
type Processes struct {
	Processes []Process `json:"processes"`
}

func (s *Server) bindExec(base string) {
	one := "/v1/" + base + "/{id}"
	huma.Register(s.api, operation(http.MethodPost, one+"/exec", base+"-exec", "Run a program, in the foreground or in the background", store.RoleMember, background),
		func(ctx context.Context, in *struct {
			ByID
			Body Exec
		}) (*executed, error) {
			if in.Body.Background {
				return s.inBackground(ctx, in.ID, in.Body)
			}
			return s.inForeground(ctx, in.ID, in.Body)
		})
	huma.Register(s.api, operation(http.MethodGet, one+"/processes", base+"-processes", "List the running programs in the background", store.RoleViewer),
		func(ctx context.Context, in *ByID) (*body[Processes], error) {
			r, err := call(ctx, s, in.ID, hostClient.ListProcesses, &pb.ListProcessesRequest{SandboxId: in.ID})
			if err != nil {
				return nil, err
			}
			return &body[Processes]{Processes{itemsOf(r.Processes, newProcess)}}, nil
		})
	huma.Register(s.api, operation(http.MethodDelete, one+"/processes/{selector}", base+"-processes-kill", "Send a signal to a program in the background", store.RoleMember, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct {
			ByID
			Selector string `path:"selector" maxLength:"256" doc:"A PID, or a tag"`
			Signal   string `query:"signal" default:"SIGKILL" enum:"SIGKILL,SIGTERM"`
		}) (*struct{}, error) {
			req := &pb.KillProcessRequest{SandboxId: in.ID, Signal: in.Signal, Selector: &pb.KillProcessRequest_Tag{Tag: in.Selector}}
			if pid, err := strconv.ParseUint(in.Selector, 10, 32); err == nil {
				req.Selector = &pb.KillProcessRequest_Pid{Pid: uint32(pid)}
			}
			_, err := change(ctx, s, control.ActSignal, in.ID, hostClient.KillProcess, req)
			return nil, err
		})
}

// executed is the answer of exec.
type executed struct {
	Status int
	Body   Executed
}

// background adds the answer for background programs to an operation.
func background(o *huma.Operation) {
	o.Responses = map[string]*huma.Response{"202": {Description: "It runs in the background."}}
}

func (s *Server) inForeground(ctx context.Context, id string, e Exec) (*executed, error) {
	began := time.Now()
	r, err := change(ctx, s, control.ActExec, id, hostClient.Exec, &pb.ExecRequest{SandboxId: id, Cmd: e.Cmd, Args: e.Args, TimeoutSec: e.TimeoutSec, Envs: e.Envs, Cwd: e.Cwd})
	if err != nil {
		return nil, err
	}
	out, errs, encoding := string(r.Stdout), string(r.Stderr), "utf-8"
	if !utf8.ValidString(out) || !utf8.ValidString(errs) {
		encode := base64.StdEncoding.EncodeToString
		out, errs, encoding = encode(r.Stdout), encode(r.Stderr), "base64"
	}
	took := float64(time.Since(began).Microseconds()) / 1000
	return &executed{http.StatusOK, Executed{
		SandboxID: id, Cmd: e.Cmd, Stdout: &out, Stderr: &errs, ExitCode: &r.ExitCode, DurationMS: &took, Encoding: encoding,
	}}, nil
}

func (s *Server) inBackground(ctx context.Context, id string, e Exec) (*executed, error) {
	r, err := change(ctx, s, control.ActExec, id, hostClient.StartBackground, &pb.StartBackgroundRequest{SandboxId: id, Cmd: e.Cmd, Args: e.Args, Tag: e.Tag, Envs: e.Envs, Cwd: e.Cwd})
	if err != nil {
		return nil, err
	}
	return &executed{http.StatusAccepted, Executed{SandboxID: id, Cmd: e.Cmd, PID: &r.Pid, Tag: r.Tag}}, nil
}
