package hostagent

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// GetSandboxMetrics returns the resource usage of a sandbox in a time range. The call does not
// count as activity of the sandbox.
func (a *Agent) GetSandboxMetrics(_ context.Context, req *connect.Request[pb.GetSandboxMetricsRequest]) (*connect.Response[pb.GetSandboxMetricsResponse], error) {
	tier, ok := ranges[req.Msg.Range]
	if !ok {
		return nil, fault.New(fault.Invalid, "get metrics", "", "range is %q: it must be 10m, 2h or 24h", fault.Printable(req.Msg.Range[:min(len(req.Msg.Range), 80)]))
	}
	s, err := a.find(req.Msg.SandboxId)
	if err != nil {
		return nil, fault.Wrap(err, "get metrics", "")
	}
	return connect.NewResponse(&pb.GetSandboxMetricsResponse{Points: pointsOf(s.metrics.get(tier))}), nil
}

// FlushSandboxMetrics returns all metrics of a sandbox and removes them.
func (a *Agent) FlushSandboxMetrics(_ context.Context, req *connect.Request[pb.FlushSandboxMetricsRequest]) (*connect.Response[pb.FlushSandboxMetricsResponse], error) {
	s, err := a.find(req.Msg.SandboxId)
	if err != nil {
		return nil, fault.Wrap(err, "flush metrics", "")
	}
	all := s.metrics.flush()
	if err := s.metrics.save(a.metricsFile(s.id())); err != nil { // if this fails, the next host agent returns the metrics again
		a.options.Log.Error("save metrics", "sandbox", s.id(), "error", err)
	}
	return connect.NewResponse(&pb.FlushSandboxMetricsResponse{
		Points_10M: pointsOf(all[tier10m]), Points_2H: pointsOf(all[tier2h]), Points_24H: pointsOf(all[tier24h]),
	}), nil
}

func pointsOf(points []point) []*pb.MetricPoint {
	all := make([]*pb.MetricPoint, len(points))
	for i, p := range points {
		all[i] = &pb.MetricPoint{TimestampUnix: p.Unix, CpuPct: p.CPU, MemBytes: p.MemBytes, DiskBytes: p.DiskBytes}
	}
	return all
}
