package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Figure is a measurement and the floor that it is compared with.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	N      int     `json:"n"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Floor  float64 `json:"floor_median,omitempty"`
	Judged float64 `json:"judged,omitempty"` // the value that the limit applies to
	By     string  `json:"judged_by,omitempty"`
	Limit  float64 `json:"limit,omitempty"`
	Within *bool   `json:"within_limit,omitempty"`
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func figure(name, unit string, values []float64) Figure {
	return Figure{Name: name, Unit: unit, N: len(values), Median: quantile(values, 0.5), P95: quantile(values, 0.95)}
}

// times judges the median ratio of each value to its floor. The ratio must be at most limit.
func (f Figure) times(values, floor []float64, limit float64) Figure {
	ratios := make([]float64, len(values))
	for i := range values {
		ratios[i] = values[i] / floor[i]
	}
	f.Floor = quantile(floor, 0.5)
	return f.judge(quantile(ratios, 0.5), "times the floor", limit, true)
}

// over judges the difference between the median and the median floor. The difference must be at
// most limit.
func (f Figure) over(floor []float64, limit float64) Figure {
	f.Floor = quantile(floor, 0.5)
	return f.judge(f.Median-f.Floor, f.Unit+" over the floor", limit, true)
}

// comparePeer reports the median floor without judging the figure.
func (f Figure) beside(floor []float64) Figure {
	f.Floor = quantile(floor, 0.5)
	return f
}

// share judges a throughput as a share of its floor. The share must be at least limit.
func (f Figure) share(floor []float64, limit float64) Figure {
	f.Floor = quantile(floor, 0.5)
	return f.judge(f.Median/f.Floor, "of the floor", limit, false)
}

// atMost judges the median itself. It must be at most limit.
func (f Figure) atMost(limit float64) Figure { return f.judge(f.Median, f.Unit, limit, true) }

// p95AtMost judges the 95th percentile, which must be at most limit. It reports the median of floor
// as the floor.
func (f Figure) p95AtMost(floor []float64, limit float64) Figure {
	f.Floor = quantile(floor, 0.5)
	return f.judge(f.P95, f.Unit+" at p95", limit, true)
}

// atLeast judges the median itself. It must be at least limit.
func (f Figure) atLeast(limit float64) Figure { return f.judge(f.Median, f.Unit, limit, false) }

func (f Figure) judge(value float64, by string, limit float64, atMost bool) Figure {
	within := value <= limit
	if !atMost {
		within = value >= limit
	}
	f.Judged, f.By, f.Limit, f.Within = value, by, limit, &within
	return f
}

func print(w io.Writer, figures []Figure) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tn\tmedian\tp95\tfloor\tjudged\tlimit\t")
	for _, f := range figures {
		floor, judged, limit, verdict := "", "", "", ""
		if f.Floor != 0 {
			floor = fmt.Sprintf("%.4g", f.Floor)
		}
		if f.Within != nil {
			judged, limit, verdict = fmt.Sprintf("%.3g %s", f.Judged, f.By), fmt.Sprintf("%.3g", f.Limit), "ok"
			if !*f.Within {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(t, "%s\t%d\t%.4g %s\t%.4g\t%s\t%s\t%s\t%s\n", f.Name, f.N, f.Median, f.Unit, f.P95, floor, judged, limit, verdict)
	}
	t.Flush()
}
