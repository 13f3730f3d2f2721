package control

import (
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestAuditNames checks that the audit log keeps the names of deleted resources, and does not tell
// a team the names of other teams' resources.
func TestAuditNames(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		b, err := w.CreateSandbox(ctx, w.by, Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024, Metadata: map[string]string{"name": "box"}})
		w.check(err)
		k, _, err := w.NewKey(ctx, w.by, "CI", nil, time.Time{})
		w.check(err)
		m, _, err := w.AddMember(ctx, w.owner(), "ann@example.com", store.RoleMember)
		w.check(err)
		w.check(w.DeleteSandbox(ctx, w.by, b.ID))
		w.check(w.RemoveKey(ctx, w.owner(), k.ID))
		w.check(w.RemoveMember(ctx, w.owner(), m.UserID))

		other, err := w.CreateTeam(ctx, w.by, "other")
		w.check(err)
		foreign := w.by
		foreign.TeamID = other.ID
		k, _, err = w.NewKey(ctx, foreign, "secret name", nil, time.Time{})
		w.check(err)
		w.wants("the key of another team", w.RemoveKey(ctx, w.owner(), k.ID), fault.NotFound)

		var got []string
		entries, err := w.Audits(ctx, w.owner(), store.AuditQuery{Limit: 20})
		w.check(err)
		for _, e := range entries {
			got = append(got, e.Action+" "+e.Resource+" "+e.Name)
		}
		want := "delete api_key ,create team ,remove member ann,delete api_key CI,delete sandbox box,add member ann,create api_key CI,create sandbox box"
		if got := strings.Join(got, ","); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
