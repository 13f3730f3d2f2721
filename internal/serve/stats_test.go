package serve

import (
	"fmt"
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	w := newWorld(t)
	b := w.create()
	w.create()
	if got := w.call("full", "POST", "/v1/sandboxes/"+b.ID+"/pause", nil, nil); got != 200 {
		t.Fatalf("got %d", got)
	}
	for span, i := range intervals {
		var s Stats
		if got := w.call("read", "GET", "/v1/sandboxes/stats?range="+span, nil, &s); got != 200 {
			t.Fatalf("%s: got %d", span, got)
		}
		last := i.n - 1
		if s.Range != span || s.Current.Running != 1 || s.Current.MemoryMB != 512 || s.Peaks.Running != 2 || s.Peaks.VCPUs != 2 ||
			len(s.Series.Labels) != i.n || len(s.Series.VCPUs) != i.n || s.Series.Running[last] != 2 || s.Series.MemoryMB[0] != 0 || !s.Series.Labels[last].Equal(s.Current.SampledAt) {
			t.Errorf("%s: %+v", span, s)
		}
		s = Stats{}
		if w.call("foreign", "GET", "/v1/capsules/stats?range="+span, nil, &s); s.Peaks.Running != 0 {
			t.Errorf("the stats of another team: %+v", s)
		}
	}
	today := time.Now().UTC().Format(time.DateOnly)
	var u Usage
	if got := w.call("read", "GET", "/v1/sandboxes/usage", nil, &u); got != 200 || len(u.Points) != 30 || u.To != today || u.Points[29].Date != today {
		t.Errorf("got %d: %+v", got, u)
	}
	for query, want := range map[string]int{"from=2026-01-01&to=2026-04-02": 200, "from=2026-01-01&to=2026-04-03": 400, "from=2026-01-02&to=2026-01-01": 400, "from=x": 400} {
		if got := w.call("read", "GET", "/v1/capsules/usage?"+query, nil, nil); got != want {
			t.Errorf("%s: got %d, want %d", query, got, want)
		}
	}
}

func TestSandboxMetrics(t *testing.T) {
	w := newWorld(t)
	b := w.create()
	for _, state := range []string{"running", "paused"} {
		for span, want := range map[string]int{"5m": 5, "10m": 10, "1h": 60, "2h": 120, "6h": 360, "12h": 720, "24h": 1440} {
			var m Metrics
			if got := w.call("read", "GET", "/v1/sandboxes/"+b.ID+"/metrics?range="+span, nil, &m); got != 200 || len(m.Points) != want || m.Range != span {
				t.Errorf("%s, %s: got %d and %d points, want %d", state, span, got, len(m.Points), want)
			}
		}
		w.call("full", "POST", "/v1/sandboxes/"+b.ID+"/pause", nil, nil)
	}
	if got := w.call("read", "GET", "/v1/sandboxes/"+b.ID+"/metrics?range=3h", nil, nil); got != 400 {
		t.Errorf("got %d", got)
	}
}

func TestSnapshots(t *testing.T) {
	w := newWorld(t)
	make := func(id, name, query string) (int, Template, Error) {
		var both struct {
			Template
			Error
		}
		got := w.call("full", "POST", "/v1/snapshots"+query, map[string]any{"sandbox_id": id, "name": name}, &both)
		return got, both.Template, both.Error
	}
	if got, made, _ := make(w.create().ID, "tools", ""); got != 201 || made.Type != "snapshot" || made.SizeBytes == 0 || made.VCPUs != 1 || made.CreatedAt == nil {
		t.Errorf("got %d: %+v", got, made)
	}
	b := w.create()
	for name, want := range map[string]string{"tools": "409 template_name_taken", "minimal": "409 name_reserved", "a b": "400 invalid_request"} {
		if got, _, e := make(b.ID, name, ""); want != fmt.Sprint(got, " ", e.Detail.Code) {
			t.Errorf("%s: got %d %+v, want %s", name, got, e, want)
		}
	}
	if got, made, _ := make(b.ID, "", ""); got != 201 || len(made.Name) != len("template-00000000") {
		t.Errorf("got %d: %+v", got, made)
	}
	if got, _, e := make(b.ID, "gone", ""); got != 404 {
		t.Errorf("got %d: %+v", got, e)
	}
	if got, _, e := make(w.create().ID, "tools", "?overwrite=true"); got != 201 {
		t.Errorf("got %d: %+v", got, e)
	}
	count := func(key, query string) int {
		var all []Template
		if got := w.call(key, "GET", "/v1/snapshots"+query, nil, &all); got != 200 {
			t.Errorf("got %d", got)
		}
		return len(all)
	}
	if all, snapshots, base, foreign := count("read", ""), count("read", "?type=snapshot"), count("read", "?type=base"), count("foreign", ""); all != snapshots+base || snapshots != 2 || foreign != base {
		t.Errorf("got %d, %d, %d, %d", all, snapshots, base, foreign)
	}
	for _, e := range []struct {
		key, name string
		want      int
	}{{"foreign", "tools", 404}, {"full", "minimal", 403}, {"full", "tools", 204}, {"full", "tools", 404}} {
		if got := w.call(e.key, "DELETE", "/v1/snapshots/"+e.name, nil, nil); got != e.want {
			t.Errorf("delete %s with the key %s: got %d, want %d", e.name, e.key, got, e.want)
		}
	}
}
