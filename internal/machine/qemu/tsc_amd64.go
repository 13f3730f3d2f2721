package qemu

import "time"

// rdtsc reads the processor's time stamp counter.
func rdtsc() uint64

// measureTSC measures the frequency of the host's time stamp counter in kHz. The error is about one
// part in a million.
func measureTSC() int {
	began, first := readTSC()
	time.Sleep(100 * time.Millisecond)
	ended, last := readTSC()
	return int(float64(last-first) / float64(ended.Sub(began).Nanoseconds()) * 1e6)
}

// readTSC reads the clock and the counter at nearly the same moment. It makes several attempts and
// returns the best.
func readTSC() (now time.Time, tsc uint64) {
	best := time.Hour
	for range 50 {
		before := time.Now()
		counter := rdtsc()
		if took := time.Since(before); took < best {
			best, now, tsc = took, before.Add(took/2), counter
		}
	}
	return now, tsc
}
