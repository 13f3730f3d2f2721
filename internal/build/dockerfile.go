package build

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits of a Dockerfile.
const (
	MaxDockerfile = 1 << 20 // size in bytes
	maxSteps      = 1000    // number of instructions in all stages
)

// dockerfile is a parsed Dockerfile.
type dockerfile struct {
	stages []instructions.Stage
	args   []instructions.ArgCommand // ARG before the first FROM
	lex    *shell.Lex
}

// parse parses a Dockerfile. Errors have kind Invalid and name the line.
func parse(text []byte) (*dockerfile, error) {
	if len(text) > MaxDockerfile {
		return nil, fault.Newf(fault.Invalid, "the Dockerfile has more than %d KiB", MaxDockerfile>>10)
	}
	read, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, invalidAt(err, nil)
	}
	d := &dockerfile{lex: shell.NewLex(read.EscapeToken)}
	if d.stages, d.args, err = instructions.Parse(read.AST, nil); err != nil {
		return nil, invalidAt(err, nil)
	}
	if len(d.stages) == 0 {
		return nil, fault.Newf(fault.Invalid, "the Dockerfile has no FROM")
	}
	count := 0
	for _, s := range d.stages {
		if count += len(s.Commands) + 1; count > maxSteps {
			return nil, fault.Newf(fault.Invalid, "the Dockerfile has more than %d instructions", maxSteps)
		}
	}
	return d, nil
}

// invalidAt returns an error with the line of a Dockerfile. If err does not contain a line, the
// error has the line of the given location.
func invalidAt(err error, at []parser.Range) error {
	if known := (*fault.Error)(nil); errors.As(err, &known) && known.Kind != fault.Internal {
		if len(at) == 0 {
			return err
		}
		return &fault.Error{Op: "build " + lineOf(at), Kind: known.Kind, Err: err, Hint: fault.HintOf(err)}
	}
	var located *parser.LocationError
	if errors.As(err, &located) && len(located.Locations) > 0 {
		at = located.Locations[0]
	}
	return fault.New(fault.Invalid, strings.TrimSpace("read "+lineOf(at)), "", "%w", rootOf(err))
}

// rootOf returns the innermost error, because the outer ones repeat the location.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func lineOf(at []parser.Range) string {
	if len(at) == 0 {
		return ""
	}
	return fmt.Sprintf("line %d of the Dockerfile", at[0].Start.Line)
}

// unsupported returns the error for something that pyro does not build.
func unsupported(format string, args ...any) *fault.Error {
	return fault.Newf(fault.Unsupported, format, args...).WithHint("docs/environments.md lists the supported instructions")
}

// find returns the index of a stage by its name or number.
func (d *dockerfile) find(name string) (int, bool) {
	return d.earlier(name, len(d.stages))
}

// target returns the index of the stage to build. An empty name means the last stage.
func (d *dockerfile) target(name string) (int, error) {
	if name == "" {
		return len(d.stages) - 1, nil
	}
	i, ok := d.find(name)
	if !ok {
		return 0, fault.Newf(fault.NotFound, "the Dockerfile has no stage %q", name)
	}
	return i, nil
}

// earlier returns the index of the stage with the given name, and whether this stage comes before
// stage i.
func (d *dockerfile) earlier(name string, i int) (int, bool) {
	for n, s := range slices.Backward(d.stages[:i]) { // as in BuildKit, the last stage of that name
		if strings.EqualFold(s.Name, name) && name != "" {
			return n, true
		}
	}
	n, err := strconv.Atoi(name)
	return n, err == nil && n >= 0 && n < i
}

// needed returns which stages the target depends on. The bases of the stages are already expanded.
func (d *dockerfile) needed(target int) []bool {
	needed := make([]bool, len(d.stages))
	var mark func(int)
	mark = func(i int) {
		if needed[i] {
			return
		}
		needed[i] = true
		use := func(name string) {
			if n, ok := d.earlier(name, i); ok {
				mark(n)
			}
		}
		use(d.stages[i].BaseName)
		for _, c := range d.stages[i].Commands {
			switch c := c.(type) {
			case *instructions.CopyCommand:
				use(c.From)
			case *instructions.RunCommand:
				for _, m := range instructions.GetMounts(c) {
					use(m.From)
				}
			}
		}
	}
	mark(target)
	return needed
}
