package prometheus

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	h := NewHistogram("x_seconds", "Help.", "method", "code")
	h.Observe(3*time.Millisecond, "Exec", "ok")
	h.Observe(2*time.Minute, "Exec", "ok")
	h.Observe(time.Second, "Exec", `a"b`)
	var w bytes.Buffer
	h.Write(&w)
	for _, line := range []string{
		"# HELP x_seconds Help.", "# TYPE x_seconds histogram", `x_seconds_bucket{method="Exec",code="ok",le="0.0025"} 0`, `x_seconds_bucket{method="Exec",code="ok",le="0.005"} 1`,
		`x_seconds_bucket{method="Exec",code="ok",le="+Inf"} 2`, `x_seconds_sum{method="Exec",code="ok"} 120.003`, `x_seconds_count{method="Exec",code="a\"b"} 1`,
	} {
		if !strings.Contains(w.String(), line+"\n") {
			t.Errorf("%q is missing in:\n%s", line, w.String())
		}
	}
}

func TestProcess(t *testing.T) {
	var w bytes.Buffer
	Process(&w)
	for _, name := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} {
		if !strings.Contains(w.String(), "\n"+name+" ") || strings.Contains(w.String(), "\n"+name+" 0\n") {
			t.Errorf("%s is missing or 0 in:\n%s", name, w.String())
		}
	}
}
