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

// claimModel implements the rules of claims without files, locks and processes.
type claimModel struct {
	group  []int // group of each session
	ended  []bool
	client []string
	last   []string
}

// claimGroup returns the running sessions that share the claim of a session.
func (m *claimModel) sharing(s int) (all []int) {
	for other, group := range m.group {
		if group == m.group[s] && !m.ended[other] {
			all = append(all, other)
		}
	}
	return all
}

func (m *claimModel) attach(s int, client string) fault.Kind {
	for _, other := range m.sharing(s) {
		if held := m.client[other]; held != "" && held != client {
			return fault.Precondition
		}
	}
	m.client[s] = client
	return ""
}

func (m *claimModel) detach(s int, client string) fault.Kind {
	if kind := m.check(s, client); kind != "" {
		return kind
	}
	m.client[s] = ""
	return ""
}

func (m *claimModel) transfer(s int, event, from, to string) fault.Kind {
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

func (m *claimModel) check(s int, client string) fault.Kind {
	if held := m.client[s]; held != "" && held != client {
		return fault.Precondition
	}
	return ""
}

// TestClaimsMatchModel performs random operations of three clients and compares the results with a
// model. Some of the sessions share a claim. PYRO_TEST_LEASES is the number of random sequences.
func TestClaimsMatchModel(t *testing.T) {
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
		claimsOnce(r, m)
	})
}

func claimsOnce(r *rapid.T, m *Manager) {
	ctx := r.Context()
	clients := []string{"one", "two", "three"}
	specs := []Spec{{Backend: Tmux, TmuxWorkspace: "w"}, {Backend: Tmux, TmuxWorkspace: "w"}, {Backend: Tmux, TmuxWorkspace: "w", Owner: "another"}, {Backend: Tmux}, {Backend: Subprocess, TmuxWorkspace: "w"}}
	model := &claimModel{group: []int{0, 0, 1, 2, 3}, ended: make([]bool, len(specs)), client: make([]string, len(specs)), last: make([]string, len(specs))}
	folders := make([]Folder, len(specs))
	for i := range specs {
		s := &specs[i]
		s.ID, s.CreatedAt, s.OutputBytes = NewID(time.Now(), i+1), time.Now(), 1
		f, err := Create(m.Root, *s)
		if err == nil {
			err = f.SetState(State{})
		}
		if err != nil {
			r.Fatal(err)
		}
		lock, err := f.LockProcess() // a session process holds this lock
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
			got, want = m.CheckClaim(id, client), model.check(s, client)
		case "write":
			got = m.CheckClaim(id, "") // a call without a client
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
		claims, err := m.Claims()
		if err != nil {
			r.Fatal(err)
		}
		for i := range specs {
			l := claims[specs[i].ID]
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
