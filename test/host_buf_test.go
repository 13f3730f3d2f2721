//go:build machine

package test

import (
	"encoding/base64"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestHostAgentWithBufCurl calls the host agent with buf curl, which discovers the API by
// reflection.
func TestHostAgentWithBufCurl(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t).with("PYRO_HOST_TOKEN", hostToken)
	buf := bufTool(t)
	agent, address := p.serveHost()
	for _, protocol := range []string{"grpc", "grpcweb", "connect"} {
		call := func(method, request string) string {
			cmd := exec.CommandContext(t.Context(), buf, "curl", "--protocol", protocol, "--http2-prior-knowledge",
				"-H", "Authorization: Bearer "+hostToken, "--reflect-header", "*", "-d", request, address+"/"+method)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return "failed: " + string(out)
			}
			return string(out)
		}
		service := func(method, request string) string { return call("hostagent.v1.HostAgentService/"+method, request) }
		for _, c := range []struct{ said, want string }{
			{call("grpc.health.v1.Health/Check", `{}`), `"SERVING"`},
			{service("CreateSandbox", `{"sandbox_id": "x"}`), `"status": ?"running"`},
			{service("WriteFile", `{"sandbox_id": "x", "path": "/srv/f", "content": "aGVsbG8="}`), `^\{\}`},
			{service("ReadFile", `{"sandbox_id": "x", "path": "/srv/f"}`), `"aGVsbG8="`},
			{service("Exec", `{"sandbox_id": "x", "cmd": "cat", "args": ["/srv/f"]}`), `"aGVsbG8="`},
			{service("ExecStream", `{"sandbox_id": "x", "cmd": "cat", "args": ["/srv/f"]}`), `(?s)"pid".*"aGVsbG8=".*"end"`},
			{service("WriteFileStream", `{"meta": {"sandbox_id": "x", "path": "/srv/f"}} {"chunk": "YQ=="} {"chunk": "Yg=="}`), `^\{\}`},
			{service("ReadFileStream", `{"sandbox_id": "x", "path": "/srv/f"}`), base64.StdEncoding.EncodeToString([]byte("ab"))},
			{service("ListDir", `{"sandbox_id": "x", "path": "/srv"}`), `"path": ?"/srv/f"`},
			{service("MakeDir", `{"sandbox_id": "x", "path": "/srv/d"}`), `"type": ?"directory"`},
			{service("RemovePath", `{"sandbox_id": "x", "path": "/srv/d"}`), `^\{\}`},
			{service("PingSandbox", `{"sandbox_id": "x"}`), `^\{\}`},
			{service("ListSandboxes", `{}`), `"running"`},
			{service("GetSandboxMetrics", `{"sandbox_id": "x", "range": "1m"}`), `(?s)failed: .*invalid_argument.*ErrorDetail`},
			{service("FlushSandboxMetrics", `{"sandbox_id": "x"}`), `^\{`},
			{service("PtyAttach", `{"sandbox_id": "x", "tag": "t", "cmd": "sh", "args": ["-c", "stty size; tty; exit 4"], "cols": 90}`), `(?s)"tag": ?"t".*"data".*"exitCode": ?4`},
			{service("PtyAttach", `{"sandbox_id": "x", "tag": "t", "offset": 2}`), `(?s)"offset": ?"2".*"exitCode": ?4`},
			{service("PtyAttach", `{"sandbox_id": "x", "tag": "none"}`), `(?s)failed: .*not_found.*ErrorDetail`},
			{service("PtySendInput", `{"sandbox_id": "x", "tag": "t", "data": "YQ=="}`), `(?s)failed: .*failed_precondition.*ErrorDetail`},
			{service("PtyResize", `{"sandbox_id": "x", "tag": "t"}`), `(?s)failed: .*invalid_argument`},
			{service("PtyKill", `{"sandbox_id": "x", "tag": "t"}`), `^\{\}`},
			{service("StartBackground", `{"sandbox_id": "x", "tag": "b", "cmd": "sh", "args": ["-c", "echo said; echo wrong >&2; sleep 1000"]}`), `"tag": ?"b"`},
			{service("StartBackground", `{"sandbox_id": "x", "tag": "b", "cmd": "true"}`), `(?s)failed: .*already_exists.*ErrorDetail`},
			{service("ListProcesses", `{"sandbox_id": "x"}`), `(?s)"tag": ?"b".*"cmd": ?"sh".*"args"`},
			{service("KillProcess", `{"sandbox_id": "x", "tag": "b", "signal": "SIGSTOP"}`), `(?s)failed: .*invalid_argument`},
			{service("KillProcess", `{"sandbox_id": "x", "tag": "b"}`), `^\{\}`},
			{service("ConnectProcess", `{"sandbox_id": "x", "tag": "b"}`), `(?s)"pid".*"exitCode": ?137`},
			{service("PauseSandbox", `{"sandbox_id": "x"}`), `^\{\}`},
			{service("Exec", `{"sandbox_id": "x", "cmd": "cat", "args": ["/srv/f"]}`), `(?s)failed: .*failed_precondition.*ErrorDetail`},
			{service("ListSandboxes", `{}`), `"paused"`},
			{service("ResumeSandbox", `{"sandbox_id": "x", "timeout_sec": 60}`), `"status": ?"running"`},
			{service("CreateSnapshot", `{"sandbox_id": "x", "name": "`+protocol+`"}`), `"sizeBytes": ?"[0-9]{7,}"`},
			{service("CreateSandbox", `{"sandbox_id": "y", "template": "`+protocol+`"}`), `"status": ?"running"`},
			{service("DeleteSnapshot", `{"name": "`+protocol+`"}`), `(?s)failed: .*failed_precondition.*ErrorDetail`},
			{service("FlattenRootfs", `{"sandbox_id": "y", "team_id": "`+flatTeam+`", "template_id": "`+flatTeam+`"}`), `"sizeBytes": ?"[0-9]{7,}"`},
			{service("DeleteSnapshot", `{"name": "`+protocol+`"}`), `^\{\}`},
			{service("DeleteSnapshot", `{"team_id": "`+flatTeam+`", "template_id": "`+flatTeam+`"}`), `^\{\}`},
			{service("DestroySandbox", `{"sandbox_id": "x"}`), `^\{\}`},
			{service("CreateSandbox", `{"sandbox_id": "x"}`), `"status": ?"running"`},
			{service("DestroySandbox", `{"sandbox_id": "x"}`), `^\{\}`},
		} {
			if !regexp.MustCompile(c.want).MatchString(c.said) {
				t.Errorf("%s: %s, want %s", protocol, c.said, c.want)
			}
		}
		if protocol == "connect" {
			service("Terminate", `{}`)
		}
	}
	if end := agent.end(); end.code != 0 {
		t.Errorf("after Terminate: %+v", end)
	}
	if r := p.run(nil, "workspace", "list", "--json"); !strings.Contains(r.stdout, `"workspaces": []`) {
		t.Errorf("left: %s", r.stdout)
	}
}

// bufTool builds buf and returns its path.
func bufTool(t *testing.T) string {
	t.Helper()
	find := exec.Command("go", "tool", "-n", "-modfile=tools/go.mod", "buf")
	find.Dir = ".."
	said, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(said))
}
