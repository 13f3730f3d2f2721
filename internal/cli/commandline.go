package cli

import (
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// commandAfter checks the arguments of a command that runs a program. There must be one argument
// per name, then the separator -- and the program. The hint of each error is the form of the
// command.
func commandAfter(form string, names ...string) cobra.PositionalArgs {
	return programAfter(form, false, names...)
}

// programAfter is like commandAfter, but if optional is true, the program can be missing.
func programAfter(form string, optional bool, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		wrong := func(format string, a ...any) error {
			return fault.Newf(fault.Invalid, format, a...).WithHint("%s", form)
		}
		dash := cmd.ArgsLenAtDash()
		words := dash
		if dash < 0 {
			words = len(args)
		}
		if words < len(names) {
			return wrong("missing argument %s", names[words])
		}
		missing := dash == len(args) || dash < 0 && words == len(names)
		switch {
		case missing && optional && words == len(names):
			return nil
		case missing && !optional:
			return wrong("missing argument CMD")
		case dash < 0:
			return fault.Newf(fault.Invalid, "put -- before the command").
				WithHint("%s %s -- %s", cmd.CommandPath(), strings.Join(args[:len(names)], " "), strings.Join(args[len(names):], " "))
		case words > len(names):
			return wrong("unexpected argument %q before --: only %s and flags belong there", args[len(names)], strings.Join(names, ", "))
		}
		return nil
	}
}

// programFlags contains the values of the flags that set the user, the working folder and the
// environment variables of a program.
type programFlags struct {
	user, cwd                string
	env, envFiles, secretEnv []string
}

// flags adds --user, --cwd, --env and --env-file to a command. The parameter folder describes the
// default of --cwd.
func (v *programFlags) flags(f *pflag.FlagSet, folder string) {
	f.StringVar(&v.user, "user", "", "run as `USER`: a name or number, optionally with :GROUP (default the image's user)")
	f.StringVar(&v.cwd, "cwd", "", "working `FOLDER` (default "+folder+")")
	f.StringArrayVarP(&v.env, "env", "e", nil, "set an environment variable, as `NAME=VALUE` (repeatable)")
	f.StringArrayVar(&v.envFiles, "env-file", nil, "set the environment variables of a `FILE`: lines NAME=VALUE, or NAME for this host's value; --env wins (repeatable)")
}

// workspaceFlags adds the flags of programs in workspaces to a command.
func (v *programFlags) workspaceFlags(f *pflag.FlagSet) {
	v.flags(f, "/workspace")
	f.StringArrayVar(&v.secretEnv, "secret-env", nil, "pass a secret of the workspace in an environment variable, as `SECRET[=ENV]` (repeatable)")
}

// parse returns the environment variables. It also returns the names of the secrets, each with the
// variable that gets the secret's value.
func (v *programFlags) parse() (env, secretEnv map[string]string, err error) {
	given, err := parsePairs("NAME=VALUE", v.env)
	if err != nil {
		return nil, nil, err
	}
	env = map[string]string{}
	for _, path := range v.envFiles {
		ofFile, err := program.ReadEnvFile(path)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(env, ofFile)
	}
	maps.Copy(env, given)
	secretEnv = map[string]string{}
	for _, value := range v.secretEnv {
		name, variable, given := strings.Cut(value, "=")
		if name == "" || given && variable == "" {
			return nil, nil, fault.New(fault.Invalid, "read", "--secret-env", "%q is not SECRET or SECRET=ENV", value)
		}
		if _, twice := secretEnv[name]; twice {
			return nil, nil, fault.New(fault.Invalid, "read", "--secret-env", "%s is given twice", name)
		}
		if !given {
			variable = name
		}
		secretEnv[name] = variable
	}
	return env, secretEnv, nil
}

// parsePairs parses pairs such as KEY=VALUE. The parameter form describes a pair in errors.
func parsePairs(form string, pairs []string) (map[string]string, error) {
	all := map[string]string{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fault.Newf(fault.Invalid, "%q is not %s", pair, form)
		}
		all[key] = value
	}
	return all, nil
}
