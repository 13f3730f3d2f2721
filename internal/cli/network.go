package cli

import (
	"context"
	"fmt"
	"io"
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

// egressFlags adds the flags --egress-allow and --egress-deny.
func egressFlags(f *pflag.FlagSet, allow, deny *[]string) {
	f.StringArrayVar(allow, "egress-allow", nil, "allow only connections that match this `RULE`: an address, range, name or *.NAME, with an optional :PORT (repeatable)")
	f.StringArrayVar(deny, "egress-deny", nil, "refuse connections that match this `RULE` (repeatable)")
}

// hostNetworkFlags adds the flags for the network settings of the host.
func hostNetworkFlags(f *pflag.FlagSet, use *bool, credentials *[]string) {
	f.BoolVar(use, "host-network-settings", false, "give the machine the host's proxies, CA certificates and package mirrors; see pyro host network-settings")
	f.StringArrayVar(credentials, "host-network-credential", nil, "with --host-network-settings: also give the password or token with this `NAME` (repeatable)")
}

// explainRefusals prints the connections that the network policy refused while a command ran.
func explainRefusals(w io.Writer, r pyro.CommandResult, hint string) {
	if r.NetworkRefused == 0 {
		return
	}
	var all []string
	for _, one := range r.NetworkRefusals {
		all = append(all, fmt.Sprintf("%s (%s)", one.Target, one.Reason))
	}
	if r.NetworkRefused > len(all) {
		all = append(all, "…")
	}
	count := "1 connection was"
	if r.NetworkRefused > 1 {
		count = fmt.Sprintf("%d connections were", r.NetworkRefused)
	}
	fmt.Fprintf(w, "pyro: note: %s refused by the network policy: %s\npyro: hint: %s\n", count, strings.Join(all, ", "), hint)
}

func newWorkspaceNetwork() *cobra.Command {
	cmd := subgroup("network", "Show the network activity of a workspace", newNetworkLog())
	cmd.Long = `With --network-policy egress, a workspace reaches the public Internet. It does not reach this host,
or private, loopback, link-local and other special addresses. --egress-allow and --egress-deny
restrict this further. --egress-allow with a special address, a range of such addresses, or the name
of a server that has such an address, opens it. Addresses of this host stay closed, and so do
loopback and link-local addresses.`
	return cmd
}

func newNetworkLog() *cobra.Command {
	var req pyro.NetworkLogRequest
	cmd := onWorkspace("log ID", "Show the connections of a workspace and the refused attempts",
		`Show the ended connections of a workspace, the refused attempts with their reasons, and then the
open connections. pyro stores about 4 MiB of records, even when the workspace is stopped or reset.`, "  pyro workspace network log ws-0123456789ab --all",
		func(cmd *cobra.Command, args []string) error {
			if req.All && cmd.Flags().Changed("tail-lines") {
				return usage(cmd, "--all and --tail-lines exclude each other")
			}
			req.WorkspaceID = args[0]
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.NetworkLog, error) {
				return p.NetworkLog(ctx, req)
			}, showNetworkLog)
		})
	cmd.Flags().Var(positive(&req.TailLines, pyro.DefaultTailLines), "tail-lines", "number of last records")
	cmd.Flags().BoolVar(&req.All, "all", false, "show everything that is stored")
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

// destination returns the destination of a connection as text. It contains the name, the address
// and the port, if they are known.
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

// parsePorts parses published ports. Each has the form GUEST or HOST:GUEST.
func parsePorts(texts []string) (all []pyro.PublishedPort, err error) {
	for _, text := range texts {
		port, ok := parsePort(text)
		if !ok {
			return nil, fault.Newf(fault.Invalid, "--publish is %q: it must be GUEST_PORT or HOST_PORT:GUEST_PORT", text)
		}
		all = append(all, port)
	}
	return all, nil
}

// parsePort parses a port of the form GUEST or HOST:GUEST. Without HOST, the host's port is 0.
func parsePort(text string) (port pyro.PublishedPort, ok bool) {
	host, guest, both := strings.Cut(text, ":")
	if !both {
		host, guest = "0", text
	}
	h, wrongHost := strconv.ParseUint(host, 10, 16)
	g, wrongGuest := strconv.ParseUint(guest, 10, 16)
	return pyro.PublishedPort{GuestPort: int(g), HostPort: int(h)}, wrongHost == nil && wrongGuest == nil && g != 0
}

// showPortChange tells the user that a published port has changed.
func showPortChange(_, service string, p pyro.PublishedPort) {
	fmt.Fprintf(os.Stderr, "pyro: port %d of service %q is now at 127.0.0.1:%d, because another program took port %d\n", p.GuestPort, service, p.HostPort, p.RequestedHostPort)
}

// ports returns the published ports as text.
func ports(all []pyro.PublishedPort) string {
	var texts []string
	for _, p := range all {
		text := fmt.Sprintf("127.0.0.1:%d -> %d", p.HostPort, p.GuestPort)
		if p.RequestedHostPort != 0 {
			text += fmt.Sprintf(" (instead of %d, which another program took)", p.RequestedHostPort)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
