package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newWorkspaceService() *cobra.Command {
	cmd := subgroup("service", "Programs that run in a workspace in the background",
		newServiceStart(), newServiceList(), newServiceStatus(), newServiceLogs(), newServiceStop())
	cmd.Long = `A service is a program that runs in the background of a workspace under a name, such as a web
server or a database. start returns when it is ready. It goes on until it is stopped, ends by
itself, or the workspace is stopped or reset; it is never started again by itself.`
	return cmd
}

func newServiceStart() *cobra.Command {
	var req pyro.StartServiceRequest
	var env, secrets, publish []string
	var ready readiness
	cmd := command("start ID NAME [flags] -- CMD [ARGS]", "Start a service and wait until it is ready",
		`Start a service and wait until it is ready: with --ready-file until a file is there, with
--ready-tcp until a port takes connections, with --ready-http until a URL is answered with a
status below 400, with --ready-command until a line for the shell succeeds; all of them seen
from the workspace. Without any of them it is ready when it runs. One that does not become
ready in time, or ends before, is stopped, and what it printed last is shown.

With --publish, in a workspace of --network-policy egress+published-ports, a port of it is
one of 127.0.0.1 on this host. The program has to listen on all addresses of the machine, as
0.0.0.0, not only on its 127.0.0.1.`,
		`  pyro workspace service start ws-0123456789ab web --ready-http http://127.0.0.1:8000/ -- python3 -m http.server 8000
  pyro workspace service start ws-0123456789ab db --ready-command 'pg_isready -q' -- postgres -D data`,
		func(cmd *cobra.Command, args []string) (err error) {
			req.WorkspaceID, req.ServiceName, req.Argv = args[0], args[1], args[2:]
			if req.Readiness, err = ready.one(); err != nil {
				return usage(cmd, "%s", err)
			}
			if req.Env, err = parsePairs("--env", env); err != nil {
				return err
			}
			if req.SecretEnv, err = parseSecretEnv(secrets); err != nil {
				return err
			}
			if req.PublishedPorts, err = parsePorts(publish); err != nil {
				return err
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
				return p.StartService(ctx, req)
			}, showService)
		})
	cmd.Args = serviceArguments
	cmd.ValidArgsFunction = completeWorkspace
	f := cmd.Flags()
	f.StringVar(&req.Cwd, "cwd", "", "run it in this `FOLDER` instead of /workspace")
	f.StringArrayVarP(&env, "env", "e", nil, "set an environment variable, as `NAME=VALUE` (repeatable)")
	secretEnvFlag(f, &secrets)
	f.StringArrayVar(&publish, "publish", nil, "have 127.0.0.1:HOST_PORT lead to its port while it runs, `[HOST_PORT:]GUEST_PORT`; without HOST_PORT one that is free (repeatable)")
	f.StringVar(&ready.file, "ready-file", "", "it is ready when this `PATH` is there")
	f.StringVar(&ready.tcp, "ready-tcp", "", "it is ready when this port takes connections, `[HOST:]PORT`")
	f.StringVar(&ready.http, "ready-http", "", "it is ready when this `URL` is answered with a status below 400")
	f.StringVar(&ready.command, "ready-command", "", "it is ready when this `LINE` for the shell succeeds")
	f.Var(positive(&req.ReadyTimeoutSeconds, pyro.DefaultReadyTimeoutSeconds), "ready-timeout-seconds", "wait for so many seconds at most")
	f.Var(positive(&req.ReadyIntervalMS, pyro.DefaultReadyIntervalMS), "ready-interval-ms", "look so often at least, in milliseconds")
	return cmd
}

// readiness is what the flags say.
type readiness struct{ file, tcp, http, command string }

// one gives what is to be waited for, nil for nothing.
func (r readiness) one() (ready *pyro.Readiness, err error) {
	for kind, target := range map[pyro.ReadinessType]string{pyro.ReadyFile: r.file, pyro.ReadyTCP: r.tcp, pyro.ReadyHTTP: r.http, pyro.ReadyCommand: r.command} {
		if target == "" {
			continue
		}
		if ready != nil {
			return nil, fault.Newf(fault.Invalid, "only one of --ready-file, --ready-tcp, --ready-http and --ready-command can be given")
		}
		ready = &pyro.Readiness{Type: kind, Target: target}
	}
	return ready, nil
}

// serviceArguments tells how to say it right.
func serviceArguments(cmd *cobra.Command, args []string) error {
	const form = "pyro workspace service start ID NAME [flags] -- CMD [ARGS]"
	names := len(args) // before the command
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		names = dash
	}
	for i, name := range []string{"ID", "NAME"} {
		if names <= i {
			return fault.Newf(fault.Invalid, "missing argument %s", name).WithHint(form)
		}
	}
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) < 3:
		return fault.Newf(fault.Invalid, "missing argument CMD").WithHint(form)
	case dash != 2:
		return fault.Newf(fault.Invalid, "put -- before the command, and two words before it").WithHint(form)
	}
	return nil
}

// serviceState tells what a service does, in few words.
func serviceState(s pyro.Service) string {
	if s.ExitCode != nil {
		return fmt.Sprintf("%s (exit code %d)", s.State, *s.ExitCode)
	}
	return string(s.State)
}

func showService(s *pyro.Service) error {
	now := time.Now()
	rows := [][]string{
		{"Service:", s.ServiceName}, {"State:", serviceState(*s)}, {"Command:", fault.CommandLine(s.Argv)}, {"Cwd:", quoted(s.Cwd)}, {"Started:", ago(now, s.StartedAt)},
	}
	if s.StateReason != "" {
		rows = append(rows, []string{"Reason:", fault.Printable(s.StateReason)})
	}
	if len(s.PublishedPorts) > 0 {
		rows = append(rows, []string{"Published:", ports(s.PublishedPorts)})
	}
	if s.Readiness != nil {
		rows = append(rows, []string{"Readiness:", string(s.Readiness.Type) + " " + quoted(s.Readiness.Target)})
	}
	if s.ReadyAt != nil {
		rows = append(rows, []string{"Ready:", fmt.Sprintf("after %.2fs", s.ReadyAt.Sub(s.StartedAt).Seconds())})
	}
	if s.EndedAt != nil {
		rows = append(rows, []string{"Ended:", ago(now, *s.EndedAt)})
	}
	return table(os.Stdout, rows)
}

func newServiceList() *cobra.Command {
	return onWorkspace("list ID", "List the services of a workspace", "", "", func(cmd *cobra.Command, args []string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceServices, error) {
			return p.ListServices(ctx, args[0])
		}, func(all *pyro.WorkspaceServices) error {
			now := time.Now()
			rows := [][]string{{"SERVICE", "STATE", "STARTED", "PUBLISHED", "COMMAND"}}
			for _, s := range all.Services {
				rows = append(rows, []string{s.ServiceName, serviceState(s), ago(now, s.StartedAt), dash(ports(s.PublishedPorts)), fault.CommandLine(s.Argv)})
			}
			return table(os.Stdout, rows)
		})
	})
}

func newServiceStatus() *cobra.Command {
	return onPart("status ID NAME", "Show what a service does", "", "", completeService, func(cmd *cobra.Command, id, name string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
			return p.StatusService(ctx, id, name)
		}, showService)
	})
}

func newServiceLogs() *cobra.Command {
	var req pyro.LogsServiceRequest
	var follow bool
	cmd := onPart("logs ID NAME", "Show what a service has printed",
		`Show what a service has printed last: its standard output, and on stderr its standard error.
Of each stream about the last MiB is kept. Neither the service nor the workspace need run.

With --follow the output goes on as it comes, until the service ends (exit code 0, whatever
that of the service is), its workspace is paused, or Ctrl-C. How it ended is told on stderr.
A service that is started again under its name is not followed. Following does not use the
workspace: it does not resume one that is paused, nor keep one from being paused. A service
does not wait for a slow reader: if output is gone before it is read, stderr tells how much.`,
		`  pyro workspace service logs ws-0123456789ab web --tail-lines 50
  pyro workspace service logs ws-0123456789ab web --follow`,
		completeService, func(cmd *cobra.Command, id, name string) error {
			if req.All && cmd.Flags().Changed("tail-lines") {
				return usage(cmd, "--all and --tail-lines exclude each other")
			}
			req.WorkspaceID, req.ServiceName = id, name
			if follow {
				return followService(cmd, req)
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.ServiceLogs, error) {
				return p.LogsService(ctx, req)
			},
				func(l *pyro.ServiceLogs) error {
					out, errs := l.Output()
					if err := printStream(os.Stdout, out); err != nil {
						return err
					}
					if err := printStream(os.Stderr, errs); err != nil {
						return err
					}
					fmt.Fprintf(os.Stderr, "[workspace-service-logs] workspace_id=%s service_name=%s state=%s truncated=%t dropped_bytes=%d\n",
						l.WorkspaceID, l.ServiceName, l.State, l.Truncated, l.DroppedBytes)
					return nil
				})
		})
	cmd.Flags().Var(positive(&req.TailLines, pyro.DefaultTailLines), "tail-lines", "show the last so many lines of each stream")
	cmd.Flags().BoolVar(&req.All, "all", false, "show all that is kept")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it prints, until it ends (not with --json)")
	return cmd
}

// printStream prints what a program wrote as it is, and ends its last line.
func printStream(to *os.File, b []byte) error {
	if len(b) > 0 && b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	_, err := to.Write(b)
	return err
}

func newServiceStop() *cobra.Command {
	return onPart("stop ID NAME", "Stop a service", "Stop a service with all that it started: it is asked to end, and killed when it has not after 5 s.", "",
		completeService, func(cmd *cobra.Command, id, name string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
				return p.StopService(ctx, id, name)
			}, showService)
		})
}
