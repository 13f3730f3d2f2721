package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// egressFlags adds the flags of a network's rules.
func egressFlags(f *pflag.FlagSet, allow, deny *[]string) {
	f.StringArrayVar(allow, "egress-allow", nil, "let it reach nothing but this: an address, a range, a name or *.NAME, with :PORT or not, `RULE` (repeatable)")
	f.StringArrayVar(deny, "egress-deny", nil, "do not let it reach this `RULE` (repeatable)")
}

func newWorkspaceNetwork() *cobra.Command {
	cmd := subgroup("network", "What a workspace does on its network", newNetworkLog())
	cmd.Long = `With --network-policy egress a workspace reaches the public Internet: no private, loopback,
link-local or otherwise special address, and none of this host. --egress-allow and
--egress-deny narrow that; --egress-allow with addresses within a private range opens these.`
	return cmd
}

func newNetworkLog() *cobra.Command {
	var req pyro.NetworkLogRequest
	cmd := onWorkspace("log ID", "Show what a workspace did on its network, and what was refused",
		`Show the connections that a workspace has made, each once it has ended, what it was refused
and why, and last the connections that are open. About the last 4 MiB are kept, and stay when
the workspace is stopped or reset.`, "  pyro workspace network log ws-0123456789ab --all",
		func(cmd *cobra.Command, args []string) error {
			if req.All && cmd.Flags().Changed("tail-lines") {
				return usage(cmd, "--all and --tail-lines exclude each other")
			}
			req.WorkspaceID = args[0]
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.NetworkLog, error) {
				return p.NetworkLog(ctx, req)
			}, showNetworkLog)
		})
	cmd.Flags().Var(positive(&req.TailLines, pyro.DefaultTailLines), "tail-lines", "show the last so many")
	cmd.Flags().BoolVar(&req.All, "all", false, "show all that is kept")
	return cmd
}

func showNetworkLog(l *pyro.NetworkLog) error {
	rows := [][]string{{"TIME", "PROTOCOL", "TO", "SENT", "RECEIVED", "VERDICT"}}
	for _, r := range l.Records {
		rows = append(rows, []string{
			r.Time.Local().Format(time.DateTime), r.Protocol, dash(destination(r)), size(r.Sent), size(r.Received), verdict(r),
		})
	}
	if err := table(os.Stdout, rows); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "[workspace-network-log] workspace_id=%s network_policy=%s records=%d truncated=%t\n", l.WorkspaceID, l.NetworkPolicy, len(l.Records), l.Truncated)
	return nil
}

// destination is where something was to go.
func destination(r pyro.NetworkRecord) string {
	to := r.Address
	if r.Port != 0 && r.Address != "" {
		to = net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
	}
	switch {
	case r.Name == "":
		return to
	case to == "":
		return quoted(r.Name)
	}
	return quoted(r.Name) + " (" + to + ")"
}

func verdict(r pyro.NetworkRecord) string {
	text := r.Verdict
	switch {
	case r.Open:
		text += ", open"
	case r.Reason != "":
		text += ": " + r.Reason
	case r.Error != "":
		text += ": " + fault.Printable(r.Error)
	}
	if r.Times > 1 {
		text += fmt.Sprintf(" (%d times)", r.Times)
	}
	return text
}

// parsePorts reads ports to publish, each GUEST or HOST:GUEST.
func parsePorts(texts []string) (all []pyro.PublishedPort, err error) {
	for _, text := range texts {
		host, guest, both := strings.Cut(text, ":")
		if !both {
			host, guest = "0", text
		}
		h, wrongHost := strconv.ParseUint(host, 10, 16)
		g, wrongGuest := strconv.ParseUint(guest, 10, 16)
		if wrongHost != nil || wrongGuest != nil || g == 0 {
			return nil, fault.Newf(fault.Invalid, "--publish %q is no port: it must be GUEST_PORT or HOST_PORT:GUEST_PORT", text)
		}
		all = append(all, pyro.PublishedPort{GuestPort: int(g), HostPort: int(h)})
	}
	return all, nil
}

// ports tells published ports as people type them.
func ports(all []pyro.PublishedPort) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, fmt.Sprintf("127.0.0.1:%d -> %d", p.HostPort, p.GuestPort))
	}
	return strings.Join(texts, ", ")
}
