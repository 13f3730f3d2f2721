package prometheus

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var started = time.Now()

// Process writes the metrics of this process, with the names that Prometheus's own clients use.
func Process(w *bytes.Buffer) {
	sample := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/total:bytes"},
	}
	metrics.Read(sample) // unlike runtime.ReadMemStats, it does not stop the program
	read := func(i int) int64 {
		if sample[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return int64(sample[i].Value.Uint64())
	}
	Value(w, "go_goroutines", "gauge", "Goroutines.", read(0))
	Value(w, "go_memstats_heap_alloc_bytes", "gauge", "Bytes of objects in the heap.", read(1))
	Value(w, "go_gc_cycles_total", "counter", "Garbage collections.", read(2))
	Value(w, "go_memstats_sys_bytes", "gauge", "Bytes of memory that the Go runtime has mapped.", read(3))
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		seconds := time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
		Value(w, "process_cpu_seconds_total", "counter", "Processor time of this process.", seconds)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			Value(w, "process_resident_memory_bytes", "gauge", "Resident memory of this process.", pages*int64(os.Getpagesize()))
		}
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		Value(w, "process_open_fds", "gauge", "Open file descriptors of this process.", len(open)-1) // without the folder itself
	}
	Value(w, "process_start_time_seconds", "gauge", "Start of this process, in seconds since 1970.", started.Unix())
}
