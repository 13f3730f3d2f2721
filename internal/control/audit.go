package control

import (
	"context"
	"slices"

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
	a := store.Audit{
		TeamID: by.TeamID, ActorType: by.Type, ActorID: by.ID, ActorName: by.Name, Action: action, Resource: resource, Subject: subject,
		Address: by.Address, Result: store.AuditOK, At: c.clock().UTC(),
	}
	if err != nil {
		a.Result = string(fault.KindOf(err))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err := c.store.AddAudit(ctx, a); err != nil {
		c.log.Error("record an action in the audit log", "action", action, "resource", resource, "subject", subject, "by", by.ID, "error", err)
	}
}
