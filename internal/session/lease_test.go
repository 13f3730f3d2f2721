package session

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// leaseModel says what the rules of leases are, without files, locks and processes.
type leaseModel struct {
	group  []int // of each session
	ended  []bool
	client []string
	last   []string
}

// sharing are the sessions that run and share the lease of one.
func (m *leaseModel) sharing(s int) (all []int) {
	for other, group := range m.group {
		if group == m.group[s] && !m.ended[other] {
			all = append(all, other)
		}
	}
	return all
}

func (m *leaseModel) attach(s int, client string) fault.Kind {
	for _, other := range m.sharing(s) {
		if held := m.client[other]; held != "" && held != client {
			return fault.Precondition
		}
	}
	m.client[s] = client
	return ""
}

func (m *leaseModel) detach(s int, client string) fault.Kind {
	if kind := m.check(s, client); kind != "" {
		return kind
	}
	m.client[s] = ""
	return ""
}

func (m *leaseModel) transfer(s int, event, from, to string) fault.Kind {
	switch {
	case from == to:
		return fault.Invalid
	case m.ended[s] || m.client[s] != from:
		return fault.Precondition
	}
	for _, other := range m.sharing(s) {
		if m.client[other] != "" {
			m.client[other], m.last[other] = to, event+" "+from+" "+to
		}
	}
	return ""
}

func (m *leaseModel) check(s int, client string) fault.Kind {
	if held := m.client[s]; held != "" && held != client {
		return fault.Precondition
	}
	return ""
}

// TestLeasesAgainstAModel has three clients do anything in any order with sessions that share a lease and with others. PYRO_TEST_LEASES is how many orders are tried.
func TestLeasesAgainstAModel(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("PYRO_TEST_LEASES"))
	if err != nil {
		n = 100
	}
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	rounds := 0
	rapid.Check(t, func(r *rapid.T) {
		rounds++
		m := &Manager{Root: fmt.Sprintf("%s/%d", root, rounds)}
		defer os.RemoveAll(m.Root)
		leasesOnce(r, m)
	})
}

func leasesOnce(r *rapid.T, m *Manager) {
	ctx := r.Context()
	clients := []string{"one", "two", "three"}
	specs := []Spec{{Backend: Tmux, TmuxWorkspace: "w"}, {Backend: Tmux, TmuxWorkspace: "w"}, {Backend: Tmux, TmuxWorkspace: "w", Owner: "another"}, {Backend: Tmux}, {Backend: Subprocess, TmuxWorkspace: "w"}}
	model := &leaseModel{group: []int{0, 0, 1, 2, 3}, ended: make([]bool, len(specs)), client: make([]string, len(specs)), last: make([]string, len(specs))}
	folders := make([]Folder, len(specs))
	for i := range specs {
		s := &specs[i]
		s.ID, s.CreatedAt, s.OutputBytes = NewID(time.Now(), i+1), time.Now(), 1
		f, err := Make(m.Root, *s)
		if err == nil {
			err = f.SetState(State{})
		}
		if err != nil {
			r.Fatal(err)
		}
		lock, err := f.Keep() // as its keeper would
		if err != nil {
			r.Fatal(err)
		}
		defer lock.Release()
		folders[i] = f
	}
	for range rapid.IntRange(1, 25).Draw(r, "steps") {
		s := rapid.IntRange(0, len(specs)-1).Draw(r, "session")
		client, other := rapid.SampledFrom(clients).Draw(r, "client"), rapid.SampledFrom(clients).Draw(r, "other")
		id := specs[s].ID
		op := rapid.SampledFrom([]string{"attach", "attach", "detach", "handoff", "takeover", "read", "write", "end"}).Draw(r, "op")
		var got error
		var want fault.Kind
		switch op {
		case "attach":
			got, want = m.Attach(ctx, id, client), fault.Precondition
			if !model.ended[s] {
				want = model.attach(s, client)
			}
		case "detach":
			got, want = m.Detach(ctx, id, client), fault.Precondition
			if !model.ended[s] {
				want = model.detach(s, client)
			}
		case "handoff":
			got, want = m.Handoff(ctx, id, client, other, "why"), model.transfer(s, op, client, other)
		case "takeover":
			got, want = m.Takeover(ctx, id, client, other, "why"), model.transfer(s, op, other, client)
		case "read":
			got, want = m.CheckLease(id, client), model.check(s, client)
		case "write":
			got = m.CheckLease(id, "") // who names no client
			if model.client[s] != "" {
				want = fault.Precondition
			}
		case "end":
			if rapid.IntRange(0, 3).Draw(r, "rarely") > 0 {
				continue
			}
			model.ended[s] = true
			got = folders[s].SetState(State{EndedAt: time.Now()})
		}
		if kind := kindOf(got); kind != want {
			r.Fatalf("%s of session %d by %s (other %s): %v, and the rules say %q", op, s, client, other, got, want)
		}
		leases, err := m.Leases()
		if err != nil {
			r.Fatal(err)
		}
		for i := range specs {
			l := leases[specs[i].ID]
			last := ""
			if l.Last.Event != "" {
				last = l.Last.Event + " " + l.Last.From + " " + l.Last.To
			}
			if l.Client != model.client[i] || last != model.last[i] || (l.Client == "") != l.Since.IsZero() {
				r.Fatalf("after %s of session %d: session %d has %+v, and the rules say %q, %q", op, s, i, l, model.client[i], model.last[i])
			}
		}
	}
}

func kindOf(err error) fault.Kind {
	if err == nil {
		return ""
	}
	return fault.KindOf(err)
}
