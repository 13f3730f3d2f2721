package fault

import (
	"encoding/json"
	"errors"
	"strings"
)

// Report is the JSON form of an error in the CLI, MCP and HTTP.
type Report struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	Op      string `json:"op,omitempty"`
	Subject string `json:"subject,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// ReportOf describes err, which must not be nil.
func ReportOf(err error) Report {
	r := Report{Kind: KindOf(err), Message: err.Error(), Hint: HintOf(err)}
	if e, ok := err.(*Error); ok {
		r.Op, r.Subject = e.Op, e.Subject
	}
	return r
}

// MarshalJSON writes the error as {"error": report}.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]Report{"error": ReportOf(e)})
}

// Err converts a report back to an error.
func (r Report) Err() error {
	e := &Error{Op: r.Op, Subject: r.Subject, Kind: r.Kind, Hint: r.Hint}
	if said := e.Error(); r.Op != "" || r.Subject != "" {
		r.Message = strings.TrimPrefix(strings.TrimPrefix(r.Message, said), ": ")
	}
	if r.Message != "" {
		e.Err = errors.New(r.Message)
	}
	return e
}
