package serve

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Error is the body of a failed request.
type Error struct {
	status int
	retry  time.Duration // time until the client can try again; 0: unknown
	Detail Detail        `json:"error"`
}

// Detail describes an error.
type Detail struct {
	Code    string `json:"code" example:"not_found" doc:"The kind of the error"`
	Message string `json:"message" doc:"What failed, and why"`
	Hint    string `json:"hint,omitempty" doc:"What fixes it"`
}

func (e *Error) Error() string { return e.Detail.Message }

// GetStatus implements huma.StatusError.
func (e *Error) GetStatus() int { return e.status }

// GetHeaders implements huma.HeadersError.
func (e *Error) GetHeaders() http.Header {
	h := http.Header{}
	if e.retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.retry+time.Second-1)/time.Second), 10))
	}
	return h
}

// codes are the codes of statuses. Other statuses have the code of the nearest class.
var codes = map[int]string{
	http.StatusBadRequest: "invalid_request", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden", http.StatusNotFound: "not_found",
	http.StatusMethodNotAllowed: "invalid_request", http.StatusConflict: "conflict", http.StatusRequestEntityTooLarge: "too_large",
	http.StatusUnprocessableEntity: "invalid_request", http.StatusTooManyRequests: "quota_exceeded", http.StatusInternalServerError: "internal_error",
	http.StatusNotImplemented: "agent_error", http.StatusBadGateway: "agent_error", http.StatusServiceUnavailable: "host_unavailable",
	http.StatusGatewayTimeout: "agent_error",
}

// special are errors with a code of their own.
var special = []struct {
	err    error
	status int
	code   string
}{
	{control.ErrWrongPassword, http.StatusUnauthorized, "wrong_password"},
	{control.ErrDisabled, http.StatusForbidden, "account_disabled"},
	{control.ErrNoTeam, http.StatusForbidden, "no_team"},
	{control.ErrOwnsTeam, http.StatusConflict, "owns_team_with_members"},
	{control.ErrNameTaken, http.StatusConflict, "template_name_taken"},
	{control.ErrNameReserved, http.StatusConflict, "name_reserved"},
}

// routesOf maps calls of the host agent, which occur in hints of hosts, to the equivalent routes.
// If a name is a prefix of another name, the longer name comes first.
var routesOf = []string{
	"ListSandboxes", "GET /v1/sandboxes", "CreateSandbox", "POST /v1/sandboxes", "DestroySandbox", "DELETE /v1/sandboxes/{id}",
	"PauseSandbox", "POST /v1/sandboxes/{id}/pause", "ResumeSandbox", "POST /v1/sandboxes/{id}/resume", "ExecStream", "GET /v1/sandboxes/{id}/exec/stream",
	"ReadFileStream", "POST /v1/sandboxes/{id}/files/stream/read", "ReadFile", "POST /v1/sandboxes/{id}/files/read",
	"ListProcesses", "GET /v1/sandboxes/{id}/processes", "KillProcess", "DELETE /v1/sandboxes/{id}/processes/{selector}",
	"ConnectProcess", "GET /v1/sandboxes/{id}/processes/{selector}/stream", "PtyAttach", "GET /v1/sandboxes/{id}/pty", "PtyKill", "the message kill",
	"DeleteSnapshot", "DELETE /v1/snapshots/{name}",
}

var routesInHints = strings.NewReplacer(routesOf...)

// refusal returns an error with a status and its code.
func refusal(status int, message, hint string) *Error {
	return &Error{status: status, Detail: Detail{codeOf(status), message, hint}}
}

func codeOf(status int) string {
	if code := codes[status]; code != "" {
		return code
	}
	if status >= 500 {
		return "internal_error"
	}
	return "invalid_request"
}

// newError returns the answer for an error.
func newError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	r := fault.ReportOf(err)
	status := fault.HTTPStatus(r.Kind)
	switch {
	case errors.Is(err, control.ErrUnauthenticated):
		status = http.StatusUnauthorized
	case r.Kind == fault.Canceled:
		status = http.StatusServiceUnavailable
	}
	e = refusal(status, fault.Printable(err.Error()), routesInHints.Replace(r.Hint))
	if r.Kind == fault.Precondition {
		e.Detail.Code = "invalid_state"
	}
	for _, s := range special {
		if errors.Is(err, s.err) {
			e.status, e.Detail.Code = s.status, s.code
		}
	}
	return e
}

// write answers a request with an error.
func (s *Server) write(ctx huma.Context, err error) {
	_, w := humago.Unwrap(ctx)
	writeError(w, newError(err))
}

// writeError writes an error as the answer to a request outside of huma's operations.
func writeError(w http.ResponseWriter, e *Error) {
	w.Header().Set("Content-Type", "application/json")
	maps.Copy(w.Header(), e.GetHeaders())
	w.WriteHeader(e.status)
	json.NewEncoder(w).Encode(e)
}

func init() {
	// Go's JSON decoder ignores the case of names. If huma did too, a second spelling of a field
	// would replace the value that huma has checked.
	huma.ValidateStrictCasing = true
	// huma calls this function to create the errors for requests that do not match their schema.
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		if status == http.StatusUnprocessableEntity {
			status = http.StatusBadRequest
		}
		for _, err := range errs {
			// huma keeps only the text of an error in a form
			if err != nil && strings.Contains(err.Error(), (&http.MaxBytesError{}).Error()) {
				status = http.StatusRequestEntityTooLarge
			}
			if err != nil {
				message += ": " + err.Error()
			}
		}
		return refusal(status, fault.Printable(message), "")
	}
}
