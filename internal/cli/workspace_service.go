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
	cmd := subgroup("service", "Run programs in the background of a workspace",
		newServiceStart(), newServiceList(), newServiceStatus(), newServiceLogs(), newServiceStop(), newServicePublish(), newServiceUnpublish())
	cmd.Long = `A service is a named program that runs in the background of a workspace, such as a web server or a
database. start returns when the service is ready. The service runs until it ends by itself, is
stopped, or its workspace is stopped or reset. pyro restarts it only with --restart.`
	return cmd
}

func newServiceStart() *cobra.Command {
	var req pyro.StartServiceRequest
	var program programFlags
	var publish []string
	var ready readiness
	cmd := command("start ID NAME [flags] -- CMD [ARGS]", "Start a service and wait until it is ready",
		`Start a service and wait until it is ready. pyro checks this inside the workspace:

  --ready-file     a file was created or changed after the start
  --ready-tcp      a process of the service accepts connections at a port
  --ready-http     a URL answers with a status below 400
  --ready-command  a shell command succeeds

The URL must belong to a process of the service, too. Without these flags, a service is ready when
it runs. If it ends or does not become ready in time, pyro stops it and shows its last output.

--publish opens a port of 127.0.0.1 on this host. The workspace needs the network policy
egress+published-ports. The program must listen on all addresses of the machine (0.0.0.0).

With --restart, pyro starts the program again after it has ended: always, or on-failure if its exit
code is not 0. The delay before a restart doubles from 0.1 s to 30 s. After a run of 10 s it is
0.1 s again. Published ports stay open. A program that ends before it is ready is not restarted.`,
		`  pyro workspace service start ws-0123456789ab web --ready-http http://127.0.0.1:8000/ -- python3 -m http.server 8000
  pyro workspace service start ws-0123456789ab db --ready-command 'pg_isready -q' -- postgres -D data`,
		func(cmd *cobra.Command, args []string) (err error) {
			req.WorkspaceID, req.ServiceName, req.Argv = args[0], args[1], args[2:]
			if req.Readiness, err = ready.one(); err != nil {
				return usage(cmd, "%s", err)
			}
			if req.Env, req.SecretEnv, err = program.parse(); err != nil {
				return err
			}
			req.User, req.Cwd = program.user, program.cwd
			if req.PublishedPorts, err = parsePorts(publish); err != nil {
				return err
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
				return p.StartService(ctx, req)
			}, showService)
		})
	cmd.Args = commandAfter("pyro workspace service start ID NAME [flags] -- CMD [ARGS]", "ID", "NAME")
	cmd.ValidArgsFunction = completeWorkspace
	f := cmd.Flags()
	program.workspaceFlags(f)
	f.StringArrayVar(&publish, "publish", nil, "publish a port on 127.0.0.1, as `[HOST_PORT:]GUEST_PORT`; without HOST_PORT, pyro chooses a free port (repeatable)")
	f.StringVar((*string)(&req.Restart), "restart", string(pyro.RestartNo), "when to start the program again: `POLICY` is no, on-failure or always")
	completeFlag(cmd, "restart", pyro.RestartPolicies)
	f.StringVar(&ready.file, "ready-file", "", "ready when this `PATH` is created or changed")
	f.StringVar(&ready.tcp, "ready-tcp", "", "ready when the port `[HOST:]PORT` accepts connections")
	f.StringVar(&ready.http, "ready-http", "", "ready when this `URL` answers with a status below 400")
	f.StringVar(&ready.command, "ready-command", "", "ready when this command `LINE` succeeds in a shell")
	f.Var(positive(&req.ReadyTimeoutSeconds, pyro.DefaultReadyTimeoutSeconds), "ready-timeout-seconds", "time limit for readiness, in seconds")
	f.Var(positive(&req.ReadyIntervalMS, pyro.DefaultReadyIntervalMS), "ready-interval-ms", "time between checks, in milliseconds")
	return cmd
}

// readiness contains the values of the --ready flags. At most one flag can be set.
type readiness struct{ file, tcp, http, command string }

// one returns the readiness check that the flags describe, or nil if no flag is set.
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

// serviceState returns the state of a service as text.
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
	if s.Restarts != nil {
		rows = append(rows, []string{"Restarts:", restarts(now, *s.Restarts)})
	}
	return table(os.Stdout, rows)
}

// restarts returns the number of restarts and the last exit as text.
func restarts(now time.Time, r pyro.ServiceRestarts) string {
	text := fmt.Sprintf("%d (policy %s)", r.Count, r.Policy)
	if r.LastEndedAt != nil {
		text += fmt.Sprintf(", the last exit code was %d, %s", *r.LastExitCode, ago(now, *r.LastEndedAt))
	}
	return text
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
	return onPart("status ID NAME", "Show the state of a service", "", "", completeService, func(cmd *cobra.Command, id, name string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
			return p.StatusService(ctx, id, name)
		}, showService)
	})
}

func newServiceLogs() *cobra.Command {
	var req pyro.LogsServiceRequest
	var follow bool
	cmd := onPart("logs ID NAME", "Show the output of a service",
		`Show the last output of a service, separately for each stream. pyro stores about 1 MiB of each
stream. The command also works after the service or the workspace has ended.

With --follow, pyro continues with new output until Ctrl-C, until the service ends, or until its
workspace is paused. The exit code is then 0, and standard error says how it ended. It continues
after a restart by --restart, but does not follow a service that you start again. Following does
not count as use: it neither resumes a workspace nor delays a pause. A service never waits for a
slow reader; standard error reports lost output.`,
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
	cmd.Flags().Var(positive(&req.TailLines, pyro.DefaultTailLines), "tail-lines", "number of last lines of each stream")
	cmd.Flags().BoolVar(&req.All, "all", false, "show everything that is stored")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with new output until the service ends (not with --json)")
	return cmd
}

// printStream writes output unchanged, and adds a newline if the last line has none.
func printStream(to *os.File, b []byte) error {
	if len(b) > 0 && b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	_, err := to.Write(b)
	return err
}

func newServiceStop() *cobra.Command {
	return onPart("stop ID NAME", "Stop a service", "Stop a service and every process that it started. Processes that remain after 5 s are killed.", "",
		completeService, func(cmd *cobra.Command, id, name string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
				return p.StopService(ctx, id, name)
			}, showService)
		})
}
