package fault

import (
	"fmt"
	"strings"
)

// Action is a step that fixes an error. Users run its command, and agents call its tool.
type Action struct {
	Command string `json:"command"` // pyro workspace start ws-1
	Tool    string `json:"tool"`    // workspace_start
	With    string `json:"with,omitempty"`
}

// Act returns an action. The command is a format with arguments.
func Act(tool, command string, args ...any) Action {
	return Action{Tool: tool, Command: fmt.Sprintf(command, args...)}
}

// Taking adds arguments of the tool that an agent can't guess.
func (a Action) Taking(format string, args ...any) Action {
	a.With = fmt.Sprintf(format, args...)
	return a
}

// String returns the command.
func (a Action) String() string { return a.Command }

// Step is a part of a hint: either text or an action.
type Step struct {
	Text   string  `json:"text,omitempty"`
	Action *Action `json:"action,omitempty"`
}

// mark stands for an action while stepsOf formats a hint.
const mark = "\x00"

// stepsOf splits a hint at its actions. It returns nil if there are none.
func stepsOf(format string, args []any) (steps []Step) {
	var actions []Action
	marked := make([]any, len(args))
	for i, arg := range args {
		marked[i] = arg
		if a, ok := arg.(Action); ok {
			actions = append(actions, a)
			marked[i] = mark
		}
	}
	if len(actions) == 0 {
		return nil
	}
	for i, text := range strings.Split(fmt.Sprintf(format, marked...), mark) {
		if text != "" {
			steps = append(steps, Step{Text: text})
		}
		if i < len(actions) {
			steps = append(steps, Step{Action: &actions[i]})
		}
	}
	return steps
}

// HintFor returns the outermost hint in err's chain, or "". The function format formats the actions
// of the hint.
func HintFor(err error, format func(Action) string) string {
	e := hinting(err)
	if e == nil || e.steps == nil {
		return HintOf(err)
	}
	var b strings.Builder
	for _, s := range e.steps {
		if s.Action != nil {
			b.WriteString(format(*s.Action))
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// Wire is the form of an error between pyro's processes: a Report and the steps of the hint.
type Wire struct {
	Report
	Steps []Step `json:"steps,omitempty"`
}

// WireOf returns the wire form of err, which must not be nil.
func WireOf(err error) Wire {
	w := Wire{Report: ReportOf(err)}
	if e := hinting(err); e != nil {
		w.Steps = e.steps
	}
	return w
}

// Err converts w back to an error.
func (w Wire) Err() error {
	err := w.Report.Err()
	if e, ok := err.(*Error); ok && w.Hint != "" {
		e.steps = w.Steps
	}
	return err
}
