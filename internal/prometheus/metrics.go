// Package prometheus measures durations and writes metrics in the Prometheus text format.
package prometheus

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// ContentType is the content type of the text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// buckets are the upper bounds of histograms, in seconds.
var buckets = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// Head writes the lines that describe a metric. kind is counter, gauge or histogram.
func Head(w *bytes.Buffer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Value writes a metric that has one value.
func Value[T int | int64 | float64](w *bytes.Buffer, name, kind, help string, value T) {
	Head(w, name, kind, help)
	fmt.Fprintf(w, "%s %v\n", name, value)
}

// Gauges writes a gauge that has a value for each value of a label.
func Gauges(w *bytes.Buffer, name, help, label string, values map[string]int) {
	Head(w, name, "gauge", help)
	for _, v := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(w, "%s{%s=%q} %d\n", name, label, v, values[v])
	}
}

// Histogram counts durations by labels. The labels must have a bounded number of values. It is safe
// for concurrent use.
type Histogram struct {
	name, help string
	labels     []string

	mu     sync.Mutex
	series map[string]*series // series by the text of their labels
}

type series struct {
	within [len(buckets)]int64
	count  int64
	sum    float64
}

// NewHistogram returns an empty histogram.
func NewHistogram(name, help string, labels ...string) *Histogram {
	return &Histogram{name: name, help: help, labels: labels, series: map[string]*series{}}
}

// Observe adds a duration. values are the values of the labels.
func (h *Histogram) Observe(d time.Duration, values ...string) {
	var key strings.Builder
	for i, label := range h.labels {
		if i > 0 {
			key.WriteByte(',')
		}
		fmt.Fprintf(&key, "%s=%q", label, values[i])
	}
	seconds := d.Seconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.series[key.String()]
	if s == nil {
		s = &series{}
		h.series[key.String()] = s
	}
	s.count++
	s.sum += seconds
	for i, bound := range buckets {
		if seconds <= bound {
			s.within[i]++
		}
	}
}

// Write writes the histogram.
func (h *Histogram) Write(w *bytes.Buffer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	Head(w, h.name, "histogram", h.help)
	for _, labels := range slices.Sorted(maps.Keys(h.series)) {
		s := h.series[labels]
		for i, bound := range buckets {
			fmt.Fprintf(w, "%s_bucket{%s,le=\"%g\"} %d\n", h.name, labels, bound, s.within[i])
		}
		fmt.Fprintf(w, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %g\n%s_count{%s} %d\n", h.name, labels, s.count, h.name, labels, s.sum, h.name, labels, s.count)
	}
}
