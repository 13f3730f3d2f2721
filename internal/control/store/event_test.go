package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/control/store/storetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// withTeam opens a database twice, like two processes that share a PostgreSQL database, and adds a
// team.
func withTeam(t *testing.T, address string) (one, other *store.Store, team string) {
	t.Helper()
	one = storetest.Open(t, address)
	other = one
	if strings.HasPrefix(address, "postgres") {
		other = storetest.Open(t, address)
	}
	u := store.User{ID: store.NewID(store.UserPrefix), Email: "a@example.com", CreatedAt: time.Now()}
	if err := one.AddUser(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	v := store.Team{ID: store.NewID(store.TeamPrefix), Slug: "a", CreatedAt: time.Now()}
	if err := one.AddTeam(t.Context(), v, u.ID); err != nil {
		t.Fatal(err)
	}
	return one, other, v.ID
}

func addKey(t *testing.T, s *store.Store, team string) {
	k := store.Key{ID: store.NewID(store.KeyPrefix), TeamID: team, CreatedAt: time.Now()}
	k.Hash = k.ID
	if err := s.AddKey(context.WithoutCancel(t.Context()), k); err != nil {
		t.Error(err)
	}
}

// TestEventsAreInOrder adds events from two processes at the same time. It checks that a reader
// gets each event once and in order, and is woken for the last one.
func TestEventsAreInOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, address string) {
		one, other, team := withTeam(t, address)
		after, err := one.LastEvent(t.Context(), team)
		if err != nil {
			t.Fatal(err)
		}
		woken, end := one.ReadEvents(team)
		defer end()
		var writers sync.WaitGroup
		const each = 50
		for i := range 4 {
			writers.Go(func() {
				for range each {
					addKey(t, []*store.Store{one, other}[i%2], team)
				}
			})
		}
		for want := after + 4*each; after < want; {
			all, _, missed, err := one.Events(t.Context(), team, after, 7)
			if err != nil || missed {
				t.Fatal(missed, err)
			}
			for _, e := range all {
				if after++; e.ID != after || e.Type != store.EventKeyCreated {
					t.Fatalf("got %+v, want the ID %d", e, after)
				}
			}
			if len(all) > 0 {
				continue
			}
			select {
			case <-woken:
			case <-time.After(testenv.Patience):
				t.Fatalf("not woken after event %d of %d", after, want)
			}
		}
		writers.Wait()
	})
}

// TestOldEventsAreRemoved checks the limits of a team's events. A slow reader must learn that it
// has missed some.
func TestOldEventsAreRemoved(t *testing.T) {
	storetest.Each(t, func(t *testing.T, address string) {
		s, _, team := withTeam(t, address)
		driver := "sqlite"
		if strings.HasPrefix(address, "postgres") {
			driver = "pgx"
		}
		db, err := sql.Open(driver, address)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		add := func(from, to int, at time.Time) {
			t.Helper()
			var rows []string
			for id := from; id <= to; id++ {
				rows = append(rows, fmt.Sprintf("('%s', %d, 'x', 'x', '{}', %d)", team, id, at.UnixMicro()))
			}
			for _, statement := range []string{
				"INSERT INTO events (team_id, id, type, subject, data, at) VALUES " + strings.Join(rows, ", "), fmt.Sprintf("UPDATE teams SET last_event = %d", to),
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
		}
		add(1, 10_099, time.Now())
		addKey(t, s, team)
		for after, want := range map[int64]bool{0: true, 99: true, 100: false, 10_099: false, 10_100: false, 10_101: true} {
			if _, last, missed, err := s.Events(t.Context(), team, after, 1); err != nil || missed != want || last != 10_100 {
				t.Errorf("after %d: missed %v, last %d, %v", after, missed, last, err)
			}
		}
		add(10_101, 10_199, time.Now().Add(-8*24*time.Hour))
		addKey(t, s, team)
		if all, last, missed, err := s.Events(t.Context(), team, 10_100, 100); err != nil || !missed || last != 10_200 || len(all) != 1 {
			t.Errorf("got %d events, last %d, missed %v, %v", len(all), last, missed, err)
		}
	})
}
