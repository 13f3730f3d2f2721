package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// buildOptions contains the flags of pyro env build.
type buildOptions struct {
	request  pyro.BuildEnvironmentRequest
	args     []string
	secrets  []string
	progress string
	quiet    bool
}

func newEnvBuild() *cobra.Command {
	var o buildOptions
	r := &o.request
	isolation := ""
	cmd := &cobra.Command{
		Use:   "build FOLDER",
		Short: "Build an environment from a Dockerfile",
		Long: `Build an environment from a Dockerfile. COPY takes files from FOLDER, without those in its
.dockerignore.

Each step that changes files makes one layer. RUN steps run in a machine, without a network unless
--network or --host-network-settings is given. A step with the same inputs as in an earlier build
is not run again. docs/environments.md lists the supported instructions.`,
		Example: `  pyro env build -t tool:1 .
  pyro env build -f build/Dockerfile --build-arg VERSION=2 --network -t tool:2 .
  pyro env build --secret id=token,src=token.txt --host-network-settings -t tool:3 .
  pyro run tool:1 -- tool --version`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.ContextPath, r.Isolation = args[0], pyro.Isolation(isolation)
			return envBuild(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&r.Name, "tag", "t", "", "`NAME[:TAG]` of the environment (required)")
	f.StringVarP(&r.Dockerfile, "file", "f", "", "the `DOCKERFILE` (default FOLDER/Dockerfile)")
	f.StringVar(&r.Target, "target", "", "build this `STAGE` (default: the last one)")
	f.StringArrayVar(&o.args, "build-arg", nil, "set an ARG, as `NAME=VALUE`; NAME alone takes the variable of this host (repeatable)")
	f.StringArrayVar(&o.secrets, "secret", nil, "a secret for RUN --mount=type=secret, as `id=ID,src=FILE` or id=ID,env=NAME (repeatable)")
	f.BoolVar(&r.NoCache, "no-cache", false, "run every step again")
	f.Var(positive(&r.VCPUCount, 0), "vcpu-count", "virtual processors of the machines (default: the processors of this host)")
	f.Var(positive(&r.MemMiB, pyro.DefaultBuildMemMiB), "mem-mib", "memory of the machines in MiB")
	f.StringVar(&isolation, "isolation", "", "isolation `LEVEL`: auto, kvm, gvisor or tcg (default: $PYRO_ISOLATION, else auto)")
	f.BoolVar(&r.Network, "network", false, "let RUN steps reach the public Internet, but not this host and private networks")
	egressFlags(f, &r.EgressAllow, &r.EgressDeny)
	hostNetworkFlags(f, &r.HostNetworkSettings, &r.HostNetworkCredentials)
	f.StringVar(&o.progress, "progress", "auto", "`MODE` of the output: plain prints every line, and auto shows a short view on a terminal")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no progress, and only the digest at the end")
	completeFlag(cmd, "isolation", pyro.Isolations)
	cmd.MarkFlagRequired("tag")
	jsonFlag(cmd)
	return cmd
}

func envBuild(cmd *cobra.Command, o *buildOptions) error {
	if err := o.parse(cmd); err != nil {
		return err
	}
	show := o.view()
	defer show.close()
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Environment, error) {
		o.request.Events = show.event
		if !o.quiet {
			o.request.Progress = report
		}
		made, err := p.BuildEnvironment(ctx, o.request)
		show.close()
		return made, err
	}, func(e *pyro.Environment) error {
		if o.quiet {
			_, err := fmt.Println(e.Digest)
			return err
		}
		_, err := fmt.Printf("built %s: %s, %s\n", e.Name, size(e.SizeBytes), e.Digest)
		return err
	})
}

// parse reads the flags that have a form of their own.
func (o *buildOptions) parse(cmd *cobra.Command) error {
	if o.progress != "auto" && o.progress != "plain" {
		return usage(cmd, "--progress must be auto or plain")
	}
	o.request.BuildArgs = map[string]string{}
	for _, arg := range o.args {
		name, value, given := strings.Cut(arg, "=")
		if name == "" {
			return fault.New(fault.Invalid, "read", "--build-arg", "%q is not NAME=VALUE", arg)
		}
		if !given {
			if value, given = os.LookupEnv(name); !given {
				continue
			}
		}
		o.request.BuildArgs[name] = value
	}
	for _, text := range o.secrets {
		s, err := parseBuildSecret(text)
		if err != nil {
			return err
		}
		o.request.Secrets = append(o.request.Secrets, s)
	}
	return nil
}

// parseBuildSecret parses a secret of the form id=ID,src=FILE or id=ID,env=NAME. It also accepts
// docker's other names for these keys.
func parseBuildSecret(text string) (s pyro.Secret, err error) {
	variable := ""
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "id":
			s.Name = value
		case "src", "source":
			s.FilePath = value
		case "env":
			variable = value
		case "type":
			if value != "file" && value != "env" {
				return s, fault.New(fault.Invalid, "read", "--secret", "the type %q is unknown", value)
			}
		default:
			return s, fault.New(fault.Invalid, "read", "--secret", "%q is unknown; use id=ID,src=FILE", key)
		}
	}
	switch {
	case s.Name == "":
		return s, fault.New(fault.Invalid, "read", "--secret", "the id is missing; use id=ID,src=FILE")
	case s.FilePath != "" && variable != "":
		return s, fault.New(fault.Invalid, "read", "--secret", "%s has both src and env", s.Name)
	case s.FilePath != "":
		return s, nil
	}
	if variable == "" {
		variable = s.Name
	}
	value, ok := os.LookupEnv(variable)
	if !ok {
		return s, fault.New(fault.Invalid, "read", "--secret", "the variable %s is not set", variable)
	}
	s.Value = pyro.NewSecretValue(value)
	return s, nil
}

// view returns the view of the build's progress.
func (o *buildOptions) view() buildView {
	switch {
	case o.quiet:
		return silentBuild{}
	case o.progress == "auto" && term.IsTerminal(int(os.Stderr.Fd())):
		width, height, err := term.GetSize(int(os.Stderr.Fd()))
		if err == nil && width > 20 && height > 10 {
			return newLiveBuild(os.Stderr, width)
		}
	}
	return &plainBuild{out: os.Stderr}
}
