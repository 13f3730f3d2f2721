package environment

import (
	"errors"
	"slices"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestCommand(t *testing.T) {
	for name, c := range map[string]struct {
		env  Environment
		want []string
		hint string
	}{
		"both":           {Environment{Entrypoint: []string{"a", "b"}, Cmd: []string{"c"}}, []string{"a", "b", "c"}, ""},
		"only cmd":       {Environment{Cmd: []string{"a"}}, []string{"a"}, ""},
		"of Debian":      {Environment{Source: SourceDebian}, nil, ""},
		"none":           {Environment{Source: SourceOCI, Name: "x/y:1"}, nil, "if the image has a command of its own: pyro env pull --force x/y:1"},
		"an empty word":  {Environment{Entrypoint: []string{""}, Cmd: []string{"a"}}, nil, ""},
		"no environment": {Environment{}, nil, ""},
	} {
		argv, err := c.env.Command()
		if !slices.Equal(argv, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s: %q, %v", name, argv, err)
		}
		if err != nil && (!errors.Is(err, ErrNoCommand) || fault.KindOf(err) != fault.Invalid || fault.HintOf(err) != c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, fault.HintOf(err))
		}
	}
}
