package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// Stats is the resource use of a team's running sandboxes.
type Stats struct {
	Range   string       `json:"range"`
	Current StatsCurrent `json:"current"`
	Peaks   StatsPeaks   `json:"peaks"`
	Series  StatsSeries  `json:"series"`
}

// StatsCurrent is the current use.
type StatsCurrent struct {
	Running   int64     `json:"running_count"`
	VCPUs     int64     `json:"vcpus_reserved"`
	MemoryMB  int64     `json:"memory_mb_reserved"`
	SampledAt time.Time `json:"sampled_at"`
}

// StatsPeaks contains the maximum of each resource in the last 30 days.
type StatsPeaks struct {
	Running  int64 `json:"running_count"`
	VCPUs    int64 `json:"vcpus"`
	MemoryMB int64 `json:"memory_mb"`
}

// StatsSeries contains the maximum of each resource in each interval. The lists have the same
// length.
type StatsSeries struct {
	Labels   []time.Time `json:"labels" doc:"The end of each interval"`
	Running  []int64     `json:"running"`
	VCPUs    []int64     `json:"vcpus"`
	MemoryMB []int64     `json:"memory_mb"`
}

// intervals are the intervals of each range of stats.
var intervals = map[string]struct {
	every time.Duration
	n     int
}{
	"5m": {5 * time.Second, 60}, "1h": {time.Minute, 60}, "6h": {5 * time.Minute, 72}, "24h": {15 * time.Minute, 96}, "30d": {6 * time.Hour, 120},
}

// Usage is the resource use of a team by day.
type Usage struct {
	From   string       `json:"from"`
	To     string       `json:"to"`
	Points []UsagePoint `json:"points"`
}

// UsagePoint is the use on a day in UTC.
type UsagePoint struct {
	Date       string  `json:"date" format:"date"`
	CPUMinutes float64 `json:"cpu_minutes"`
	MemMinutes float64 `json:"ram_mb_minutes"`
}

// Bounds of the days in a request for usage.
const (
	usageDays    = 30
	maxUsageDays = 92
)

func (s *Server) bindStats(base string) {
	path := "/v1/" + base
	huma.Register(s.api, operation(http.MethodGet, path+"/stats", base+"-stats", "Return what the running sandboxes of the team use", store.RoleViewer),
		func(ctx context.Context, in *struct {
			Range string `query:"range" default:"1h" enum:"5m,1h,6h,24h,30d"`
		}) (*body[Stats], error) {
			return s.stats(ctx, in.Range)
		})
	huma.Register(s.api, operation(http.MethodGet, path+"/usage", base+"-usage", "Return what the sandboxes of the team have used on each day, in UTC", store.RoleViewer),
		func(ctx context.Context, in *struct {
			From string `query:"from" format:"date" doc:"The first day. If it is empty, the result has the 30 days up to the last day"`
			To   string `query:"to" format:"date" doc:"The last day. If it is empty, it is today. The result has at most 92 days"`
		}) (*body[Usage], error) {
			return s.usage(ctx, in.From, in.To)
		})
}

func (s *Server) stats(ctx context.Context, span string) (*body[Stats], error) {
	by, i := identity(ctx).Actor, intervals[span]
	got, now, err := s.control.Use(ctx, by, i.every, i.n)
	if err != nil {
		return nil, newError(err)
	}
	month, _, err := s.control.Use(ctx, by, 30*24*time.Hour, 1)
	if err != nil {
		return nil, newError(err)
	}
	peak := month.Series[0]
	r := Stats{Range: span, Current: StatsCurrent{got.Current.Running, got.Current.VCPUs, got.Current.MemoryMB, now}, Peaks: StatsPeaks{peak.Running, peak.VCPUs, peak.MemoryMB}}
	for n, u := range got.Series {
		r.Series.Labels = append(r.Series.Labels, now.Add(-time.Duration(i.n-1-n)*i.every))
		r.Series.Running = append(r.Series.Running, u.Running)
		r.Series.VCPUs = append(r.Series.VCPUs, u.VCPUs)
		r.Series.MemoryMB = append(r.Series.MemoryMB, u.MemoryMB)
	}
	return &body[Stats]{r}, nil
}

func (s *Server) usage(ctx context.Context, first, last string) (*body[Usage], error) {
	to := s.control.Now().Truncate(24 * time.Hour)
	var err error
	if last != "" {
		to, err = time.Parse(time.DateOnly, last)
	}
	from := to.AddDate(0, 0, 1-usageDays)
	if first != "" && err == nil {
		from, err = time.Parse(time.DateOnly, first)
	}
	days := int(to.Sub(from)/(24*time.Hour)) + 1
	switch {
	case err != nil:
		err = fault.Newf(fault.Invalid, "from and to must be days, such as 2026-05-04")
	case days < 1:
		err = fault.Newf(fault.Invalid, "from is after to")
	case days > maxUsageDays:
		err = fault.Newf(fault.Invalid, "from and to are %d days apart: the maximum is %d", days, maxUsageDays)
	}
	if err != nil {
		return nil, newError(err)
	}
	found, err := s.control.Days(ctx, identity(ctx).Actor, from, to)
	if err != nil {
		return nil, newError(err)
	}
	r := Usage{From: from.Format(time.DateOnly), To: to.Format(time.DateOnly), Points: []UsagePoint{}}
	for _, d := range found {
		r.Points = append(r.Points, UsagePoint{d.Date.Format(time.DateOnly), d.CPUMinutes, d.MemMBMinutes})
	}
	return &body[Usage]{r}, nil
}

// Metrics are the metrics of a sandbox, the oldest point first.
type Metrics struct {
	SandboxID string  `json:"sandbox_id"`
	Range     string  `json:"range"`
	Points    []Point `json:"points"`
}

// Point is the resource use at one point in time.
type Point struct {
	Timestamp int64   `json:"timestamp_unix"`
	CPU       float64 `json:"cpu_pct" doc:"The use of all processors of the sandbox together, 0 to 100"`
	Mem       int64   `json:"mem_bytes"`
	Disk      int64   `json:"disk_bytes"`
}

// tiers maps each range of the API to the range to request from the host agent, and to its length.
var tiers = map[string]struct {
	host   string
	length time.Duration
}{
	"5m": {"10m", 5 * time.Minute}, "10m": {"10m", 10 * time.Minute}, "1h": {"2h", time.Hour}, "2h": {"2h", 2 * time.Hour},
	"6h": {"24h", 6 * time.Hour}, "12h": {"24h", 12 * time.Hour}, "24h": {"24h", 24 * time.Hour},
}

// metrics returns the metrics of a sandbox. While a sandbox is paused, there are no new points. So
// a range ends at the last point, not at the current time.
func (s *Server) metrics(ctx context.Context, id, span string) (*body[Metrics], error) {
	tier := tiers[span]
	r, err := call(ctx, s, id, hostClient.GetSandboxMetrics, &pb.GetSandboxMetricsRequest{SandboxId: id, Range: tier.host})
	if err != nil {
		return nil, err
	}
	m := Metrics{id, span, []Point{}}
	for _, p := range r.Points {
		if last := r.Points[len(r.Points)-1].TimestampUnix; last-p.TimestampUnix < int64(tier.length/time.Second) {
			m.Points = append(m.Points, Point{p.TimestampUnix, p.CpuPct, p.MemBytes, p.DiskBytes})
		}
	}
	return &body[Metrics]{m}, nil
}
