package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestHosts checks that a host is known by the key of its state folder, and that two hosts can't
// have one name.
func TestHosts(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		see := func(key, name, want string) store.Host {
			t.Helper()
			w.now = w.now.Add(time.Second)
			h, err := w.SeeHost(ctx, key, name, w.now)
			if err != nil || want != "" && h.ID != want || h.Key != key || h.Name != name || !h.SeenAt.Equal(w.now) {
				t.Errorf("%s, %s: got %+v, %v, want %s", key, name, h, err, want)
			}
			return h
		}
		see("key", "here", w.host)
		see("key", "renamed", w.host)
		see("key", "here", w.host)
		there := see("other", "there", "")
		for key, name := range map[string]string{"new": "here", "other": "here", "key": "there"} {
			_, err := w.SeeHost(ctx, key, name, w.now)
			wants(t, key+" with the name "+name, err, fault.Exists)
			if owner := map[string]string{"here": `"key"`, "there": `"other"`}[name]; !strings.Contains(err.Error(), owner) {
				t.Errorf("%v does not have the key %s", err, owner)
			}
		}
		old := see("", "old", "") // a record of an earlier version
		see("its key", "old", old.ID)
		see("its key", "later", old.ID)
		see("first", "old", "")
		all, err := w.Hosts(ctx)
		if err != nil || len(all) != 4 || all[0].ID != w.host || all[1].ID != there.ID || all[2].ID != old.ID || all[2].Name != "later" || !all[0].CreatedAt.Before(all[1].CreatedAt) {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
