package workspace

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Bounds of what people call a workspace.
const (
	MaxName       = 128 // characters of a name
	MaxLabels     = 64
	MaxLabelKey   = 63  // characters
	MaxLabelValue = 256 // characters
)

// Update says what of the name and the labels to change.
type Update struct {
	Name        *string
	ClearName   bool
	Labels      map[string]string // to set
	ClearLabels []string          // keys to remove
}

func (u Update) check() error {
	if u.Name != nil {
		if u.ClearName {
			return fault.Newf(fault.Invalid, "name and clear_name exclude each other")
		}
		if err := checkName(*u.Name); err != nil {
			return err
		}
	}
	for _, key := range u.ClearLabels {
		if _, both := u.Labels[key]; both {
			return fault.Newf(fault.Invalid, "label %q is both set and removed", key)
		}
	}
	if u.Name == nil && !u.ClearName && len(u.Labels) == 0 && len(u.ClearLabels) == 0 {
		return fault.Newf(fault.Invalid, "nothing to update").WithHint("give --name, --clear-name, --label or --clear-label")
	}
	return checkLabels(u.Labels)
}

// apply changes a record.
func (u Update) apply(name *string, labels map[string]string) error {
	if u.ClearName {
		*name = ""
	}
	if u.Name != nil {
		*name = *u.Name
	}
	for _, key := range u.ClearLabels {
		delete(labels, key)
	}
	for key, value := range u.Labels {
		labels[key] = value
	}
	return checkLabels(labels)
}

// checkName refuses what would not be read as a name.
func checkName(name string) error {
	if !line(name, MaxName) || strings.TrimSpace(name) == "" {
		return fault.Newf(fault.Invalid, "the name must be one line of 1 to %d characters", MaxName)
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fault.Newf(fault.Invalid, "%d labels: at most %d", len(labels), MaxLabels)
	}
	for key, value := range labels {
		if !line(key, MaxLabelKey) || key == "" || strings.ContainsAny(key, " =") {
			return fault.Newf(fault.Invalid, "the key of a label must be 1 to %d characters without spaces and =: %q is not", MaxLabelKey, key)
		}
		if !line(value, MaxLabelValue) {
			return fault.Newf(fault.Invalid, "the value of label %s must be one line of at most %d characters", key, MaxLabelValue)
		}
	}
	return nil
}

// line tells whether a text is printable, in one line, and of at most so many characters.
func line(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
