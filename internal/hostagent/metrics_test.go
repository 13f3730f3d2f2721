package hostagent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// TestTiers adds samples for two days. It checks the length, interval and means of each tier.
func TestTiers(t *testing.T) {
	var m metrics
	at := time.Unix(0, 0)
	for i := range 2 * 24 * 3600 * 2 {
		m.add(at, point{CPU: float64(i % 2 * 100), MemBytes: 100, DiskBytes: 7})
		at = at.Add(sampleEvery)
	}
	for i, want := range []struct {
		most  int
		every int64
		cpu   float64
	}{{1200, 1, 0}, {240, 30, 50}, {288, 300, 50}} {
		points := m.get(i)
		if len(points) != want.most {
			t.Fatalf("tier %d has %d points", i, len(points))
		}
		if last, first := points[want.most-1], points[want.most-2*int(min(want.every, 2))]; i > 0 && last.Unix-points[want.most-2].Unix != want.every {
			t.Errorf("tier %d: %v after %v", i, last, first)
		}
		if i > 0 && (points[0].CPU != want.cpu || points[0].MemBytes != 100 || points[0].DiskBytes != 7) {
			t.Errorf("tier %d has %+v", i, points[0])
		}
	}
	path := filepath.Join(t.TempDir(), "metrics")
	if err := m.save(path); err != nil {
		t.Fatal(err)
	}
	var again metrics
	if err := again.load(path); err != nil {
		t.Fatal(err)
	}
	for i := range tiers {
		a, b := m.get(i), again.get(i)
		if len(a) != len(b) || a[0] != b[0] || a[len(a)-1] != b[len(b)-1] {
			t.Errorf("tier %d: samples changed", i)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{0, 3, 8, 15, 100, len(text) - 1} {
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := again.load(path); err == nil || len(again.get(tier10m)) != 0 {
			t.Errorf("a file that was cut after %d bytes was read: %v", cut, err)
		}
	}
	if all := m.flush(); len(all[tier10m]) != 1200 || len(m.get(tier10m)) != 0 {
		t.Error("it was not flushed")
	}
}

func TestCPUCountsAllProcessors(t *testing.T) {
	for _, c := range []struct {
		worked, of time.Duration
		vcpus      int
		want       float64
	}{{time.Second, time.Second, 2, 50}, {3 * time.Second, time.Second, 2, 100}, {-time.Second, time.Second, 1, 0}, {0, 0, 1, 0}} {
		if p := pointOf(workspace.Usage{MemBytes: 5, DiskBytes: 6}, c.worked, c.of, c.vcpus); p.CPU != c.want || p.MemBytes != 5 || p.DiskBytes != 6 {
			t.Errorf("%+v: %+v", c, p)
		}
	}
}

// TestMetricsSurviveRestart checks that the next host agent returns the earlier samples exactly
// once.
func TestMetricsSurviveRestart(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	s := a.all()[0]
	s.metrics.add(time.Unix(1, 0), point{MemBytes: 42})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b := open(t, folder, f, Limits{})
	got, err := b.GetSandboxMetrics(t.Context(), connect.NewRequest(&pb.GetSandboxMetricsRequest{SandboxId: "x", Range: "10m"}))
	if err != nil || len(got.Msg.Points) == 0 || got.Msg.Points[0].MemBytes != 42 || got.Msg.Points[0].TimestampUnix != 1 {
		t.Fatalf("%v %v", got, err)
	}
	flushed, err := b.FlushSandboxMetrics(t.Context(), connect.NewRequest(&pb.FlushSandboxMetricsRequest{SandboxId: "x"}))
	if err != nil || len(flushed.Msg.Points_10M) == 0 || flushed.Msg.Points_10M[0].MemBytes != 42 {
		t.Fatalf("%v %v", flushed, err)
	}
	got, err = b.GetSandboxMetrics(t.Context(), connect.NewRequest(&pb.GetSandboxMetricsRequest{SandboxId: "x", Range: "10m"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range got.Msg.Points {
		if p.MemBytes == 42 {
			t.Error("a flushed sample still exists")
		}
	}
	for _, r := range []string{"", "1h", "10M"} {
		if _, err := b.GetSandboxMetrics(t.Context(), connect.NewRequest(&pb.GetSandboxMetricsRequest{SandboxId: "x", Range: r})); fault.KindOf(err) != fault.Invalid {
			t.Errorf("range %q: %v", r, err)
		}
	}
}

// TestRanges checks the points of each range after eleven minutes, and the points that a flush
// returns.
func TestRanges(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	a.all()[0].stopSampling() // the test adds all samples
	c := dial(t, serve(t, a, ServeOptions{}))["grpc"]
	a.all()[0].metrics.flush()
	for i := range 11 * 60 * 2 {
		a.all()[0].metrics.add(time.Unix(0, 0).Add(time.Duration(i)*sampleEvery), point{CPU: float64(i % 2 * 100), MemBytes: 42, DiskBytes: 7})
	}
	for name, want := range map[string]struct {
		points      int
		first, next int64
		cpu         float64
	}{"10m": {1200, 60, 60, 0}, "2h": {21, 30, 60, 50}, "24h": {2, 300, 600, 50}} {
		r, err := c.GetSandboxMetrics(t.Context(), connect.NewRequest(&pb.GetSandboxMetricsRequest{SandboxId: "x", Range: name}))
		if err != nil {
			t.Fatal(err)
		}
		p := r.Msg.Points
		if len(p) != want.points || p[0].TimestampUnix != want.first || p[1].TimestampUnix != want.next || p[0].CpuPct != want.cpu || p[0].MemBytes != 42 || p[0].DiskBytes != 7 {
			t.Errorf("%s: %d points from %v", name, len(p), p[:min(len(p), 2)])
		}
	}
	r, err := c.FlushSandboxMetrics(t.Context(), connect.NewRequest(&pb.FlushSandboxMetricsRequest{SandboxId: "x"}))
	if err != nil || len(r.Msg.Points_10M) != 1200 || len(r.Msg.Points_2H) != 21 || len(r.Msg.Points_24H) != 2 {
		t.Errorf("flushed: %v %v", r, err)
	}
}
