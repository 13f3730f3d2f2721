package danger

import (
	"encoding/json"
	"errors"
)

// typedJSON is Typed as it is kept in a file.
type typedJSON struct {
	Reader  string `json:"reader,omitempty"`
	Other   bool   `json:"other,omitempty"`
	Earlier string `json:"earlier,omitempty"`
	Pending string `json:"pending,omitempty"`
	Line    string `json:"line,omitempty"`
	Escape  string `json:"escape,omitempty"`
	Quoted  bool   `json:"quoted,omitempty"`
	Edited  bool   `json:"edited,omitempty"`
	Pasting bool   `json:"pasting,omitempty"`
	Pasted  bool   `json:"pasted,omitempty"`
}

// MarshalJSON gives all of it: what was typed, a password at a prompt among it, as far as its line is not entered. Keep it where nobody else reads it.
func (t Typed) MarshalJSON() ([]byte, error) {
	return json.Marshal(typedJSON{t.reader, t.other, t.earlier, t.pending, t.line, t.escape, t.quoted, t.edited, t.pasting, t.pasted})
}

// UnmarshalJSON takes what MarshalJSON gave.
func (t *Typed) UnmarshalJSON(b []byte) error {
	var k typedJSON
	if err := json.Unmarshal(b, &k); err != nil {
		return err
	}
	if _, known := interpreters[k.Reader]; k.Reader != "" && !known {
		return errors.New("an unknown reader")
	}
	*t = Typed{k.Reader, k.Other, k.Earlier, k.Pending, k.Line, k.Escape, k.Quoted, k.Edited, k.Pasting, k.Pasted}
	return nil
}
