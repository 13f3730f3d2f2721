package fault

import "encoding/json"

// Report is the form in which an error leaves pyro in JSON: the same for the CLI's --json, MCP and HTTP.
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
