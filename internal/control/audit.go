package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// The actions and resources of the audit log.
const (
	actCreate   = "create"
	actDelete   = "delete"
	actPause    = "pause"
	actResume   = "resume"
	actLogin    = "login"
	actFork     = "fork"
	actShare    = "share"
	actOpen     = "open"
	actUpdate   = "update"
	actPassword = "change_password"
	actAdd      = "add"
	actRemove   = "remove"
	actLeave    = "leave"
	actLink     = "create_login_link"
	actQuota    = "set_quota"

	ActExec       = "exec"
	ActTerminal   = "open_terminal"
	ActSignal     = "signal_process"
	ActWrite      = "write_file"
	ActMakeDir    = "make_folder"
	ActRemoveFile = "remove_file"
	ActRenameFile = "rename_file"

	onSandbox  = "sandbox"
	onKey      = "api_key"
	onTemplate = "template"
	onSession  = "session"
	onPort     = "port"
	onTeam     = "team"
	onMember   = "member"
	onUser     = "user"
)

// adminResources lists the resources with entries that only admins can read.
var adminResources = []string{onSession, onTeam, onMember, onUser}

// AdminScope reports whether only admins see the entries about a resource.
func AdminScope(resource string) bool { return slices.Contains(adminResources, resource) }

// Record adds the result of a client's action in a sandbox to the audit log.
func (c *Control) Record(ctx context.Context, by Actor, action, id string, err error) {
	c.audit(ctx, by, action, onSandbox, id, err)
}

// audit records the result of an action, even if its client has disconnected. If the record fails,
// audit logs the error and does not fail, because the action has already happened.
func (c *Control) audit(ctx context.Context, by Actor, action, resource, subject string, err error) {
	c.auditNamed(ctx, by, action, resource, subject, "", err)
}

// auditNamed is like audit, for a caller that knows the name of the resource. If name is "",
// auditNamed looks it up.
func (c *Control) auditNamed(ctx context.Context, by Actor, action, resource, subject, name string, err error) {
	a := store.Audit{
		TeamID: by.TeamID, ActorType: by.Type, ActorID: by.ID, ActorName: by.Name, Action: action, Resource: resource, Subject: subject,
		Address: by.Address, Result: store.AuditOK, At: c.clock().UTC(),
	}
	if err != nil {
		a.Result = string(fault.KindOf(err))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	a.Name = cmp.Or(name, c.nameOf(ctx, by.TeamID, resource, subject))
	if err := c.store.AddAudit(ctx, a); err != nil {
		c.log.Error("record an action in the audit log", "action", action, "resource", resource, "subject", subject, "by", by.ID, "error", err)
	}
}

// nameOf returns the name of a team's resource, or "" if it has none or can't be found. Entries of
// the log keep this name, because the resource can be deleted later.
func (c *Control) nameOf(ctx context.Context, team, resource, subject string) string {
	switch resource {
	case onSandbox, onPort:
		id, _, _ := strings.Cut(subject, ":")
		b, _ := c.store.Sandbox(ctx, team, id)
		return b.Metadata["name"]
	case onKey:
		k, _ := c.store.Key(ctx, team, subject)
		return k.Name
	case onMember:
		m, _ := c.store.Member(ctx, team, subject)
		return cmp.Or(m.Name, m.Email)
	}
	return ""
}
