package workspace

import (
	"context"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Limits of names and labels.
const (
	MaxName       = 128 // characters of a name.
	MaxLabels     = 64
	MaxLabelKey   = 63  // characters of a key.
	MaxLabelValue = 256 // characters of a value.
)

// Update describes changes to a workspace. The caller has checked all fields except the name and
// the labels. A field that is zero changes nothing.
type Update struct {
	Name        *string
	ClearName   bool
	Labels      map[string]string // labels to set.
	ClearLabels []string          // keys of labels to remove.

	VCPUCount   int
	MemMiB      int
	TTLSeconds  int
	Network     string   // one of the network policies in package store.
	ClearEgress bool     // remove all egress rules, before Allow and Deny are set.
	Allow, Deny []string // the new egress rules of this kind; nil: unchanged.
}

// discovery reports whether the name or labels change.
func (u Update) discovery() bool {
	return u.Name != nil || u.ClearName || len(u.Labels) > 0 || len(u.ClearLabels) > 0
}

// network reports whether the network changes.
func (u Update) network() bool {
	return u.Network != "" || u.ClearEgress || u.Allow != nil || u.Deny != nil
}

// settings reports whether settings change.
func (u Update) settings() bool {
	return u.network() || u.VCPUCount > 0 || u.MemMiB > 0 || u.TTLSeconds > 0
}

// Update changes the name, the labels and the settings of a workspace in one transaction. A machine
// that runs gets the new time to live and the new network policy immediately. Processors and memory
// change when a machine boots, see [Workspace.Waiting].
func (m *Manager) Update(ctx context.Context, id string, u Update) (Workspace, error) {
	if err := u.check(); err != nil {
		return Workspace{}, err
	}
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return Workspace{}, err
	}
	if u.settings() {
		err = m.updateSettings(ctx, w, u)
	} else {
		err = m.Store.Update(ctx, id, func(w *store.Workspace) error { return u.rename(w) })
	}
	if err != nil {
		return Workspace{}, err
	}
	return m.Get(ctx, store.KindWorkspace, id)
}

// updateSettings stores new settings, and applies those that a running machine can change.
func (m *Manager) updateSettings(ctx context.Context, w store.Workspace, u Update) error {
	lock, err := m.lock(ctx, w.ID)
	if err != nil {
		return err
	}
	defer lock.Release()
	if u.Network != "" && u.Network != store.NetworkOff {
		features, err := m.features(w.Spec)
		if err == nil {
			err = CheckNetwork(features)
		}
		if err != nil {
			return fault.Wrap(err, "update workspace", w.ID)
		}
	}
	runs, err := m.runs(ctx, w.ID)
	if err != nil {
		return err
	}
	var spec store.Spec
	err = m.Store.Update(ctx, w.ID, func(w *store.Workspace) error {
		if err := u.rename(w); err != nil {
			return err
		}
		err := u.set(&w.Spec, runs || w.Disks.Checkpoint != "")
		spec = w.Spec
		return err
	})
	if err != nil {
		return fault.Wrap(err, "update workspace", w.ID)
	}
	if !runs || !u.network() && u.TTLSeconds == 0 {
		return nil
	}
	if err := m.reconfigure(ctx, w.ID); err != nil {
		return err
	}
	now := time.Now() // the supervisor records its last use a moment later
	return m.Store.Active(ctx, w.ID, now, spec.Expiry(now))
}

// reconfigure applies the stored settings to a running machine.
func (m *Manager) reconfigure(ctx context.Context, id string) error {
	c, err := remote.Dial(ctx, m.folder(id))
	if err == nil {
		defer c.Close()
		err = c.Reconfigure(ctx)
	}
	if err == nil || fault.KindOf(err) == fault.Precondition { // the machine has ended; the next one gets the settings
		return nil
	}
	return fault.New(fault.KindOf(err), "update workspace", id, "the new settings are stored, but its machine keeps the old ones: %w", err).
		WithHint("%s && %s starts a machine with the new ones", fault.Act("workspace_stop", "pyro workspace stop %s", id), fault.Act("workspace_start", "pyro workspace start %s", id))
}

// Waiting returns the names of the settings that the running or paused machine does not have yet.
// The next machine that boots has them.
func (w Workspace) Waiting() (fields []string) {
	if w.State != Started && w.State != Paused || w.Spec.Machine == nil {
		return nil
	}
	now, next := w.Spec.CurrentShape(), w.Spec.Shape()
	if now.VCPUCount != next.VCPUCount {
		fields = append(fields, "vcpu_count")
	}
	if now.MemMiB != next.MemMiB {
		fields = append(fields, "mem_mib")
	}
	if next.Networked && !now.Networked { // a policy without a network needs no restart: the machine immediately reaches nothing
		fields = append(fields, "network_policy")
	}
	return fields
}

// set sets new settings. hasMachine reports whether there is a running or saved machine, which
// keeps its shape.
func (u Update) set(s *store.Spec, hasMachine bool) error {
	shape := s.CurrentShape()
	for _, number := range []struct {
		to  *int
		new int
	}{{&s.VCPUCount, u.VCPUCount}, {&s.MemMiB, u.MemMiB}, {&s.TTLSeconds, u.TTLSeconds}} {
		if number.new > 0 {
			*number.to = number.new
		}
	}
	if u.Network != "" {
		s.Network = u.Network
	}
	if !s.Networked() && len(u.Allow)+len(u.Deny) > 0 {
		return fault.Newf(fault.Invalid, "there are network rules, but the network is off").
			WithHint("%s", fault.Act("workspace_update", "--network-policy %s", store.NetworkEgress).Taking("network_policy %q", store.NetworkEgress))
	}
	if u.ClearEgress {
		s.Egress.Allow, s.Egress.Deny = nil, nil
	}
	if u.Allow != nil {
		s.Egress.Allow = u.Allow
	}
	if u.Deny != nil {
		s.Egress.Deny = u.Deny
	}
	if s.HostNetwork != nil && (u.ClearEgress || u.Allow != nil) {
		s.Egress.Open = s.HostNetwork.Rules
	}
	s.Machine = nil
	if hasMachine && s.Shape() != shape {
		s.Machine = &shape
	}
	return nil
}

func (u Update) check() error {
	if u.Name != nil {
		if u.ClearName {
			return fault.Newf(fault.Invalid, "name and clear_name exclude each other")
		}
		if err := checkName(*u.Name); err != nil {
			return err
		}
	}
	for _, key := range u.ClearLabels {
		if _, both := u.Labels[key]; both {
			return fault.Newf(fault.Invalid, "label %q is both set and removed", key)
		}
	}
	if !u.discovery() && !u.settings() {
		return fault.Newf(fault.Invalid, "nothing to update").WithHint("give --name, --clear-name, --label, --clear-label or a new setting, such as --mem-mib")
	}
	return checkLabels(u.Labels)
}

// rename applies the changes to the name and the labels.
func (u Update) rename(w *store.Workspace) error {
	if u.ClearName {
		w.Name = ""
	}
	if u.Name != nil {
		w.Name = *u.Name
	}
	for _, key := range u.ClearLabels {
		delete(w.Labels, key)
	}
	maps.Copy(w.Labels, u.Labels)
	return checkLabels(w.Labels)
}

// checkName returns an error if a text can't be a name.
func checkName(name string) error {
	if !line(name, MaxName) || strings.TrimSpace(name) == "" {
		return fault.Newf(fault.Invalid, "the name must be one line of 1 to %d characters", MaxName)
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fault.Newf(fault.Invalid, "%d labels: at most %d", len(labels), MaxLabels)
	}
	for key, value := range labels {
		if !line(key, MaxLabelKey) || key == "" || strings.ContainsAny(key, " =") {
			return fault.Newf(fault.Invalid, "%q is not a valid key of a label: it must have 1 to %d characters, and no spaces and no =", key, MaxLabelKey)
		}
		if !line(value, MaxLabelValue) {
			return fault.Newf(fault.Invalid, "the value of label %s must be one line of at most %d characters", key, MaxLabelValue)
		}
	}
	return nil
}

// line reports whether a text is one printable line with at most the given number of characters.
func line(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
