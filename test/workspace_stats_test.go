//go:build machine

package test

import (
	"fmt"
	"testing"
	"time"
)

// TestStats compares the stats of a workspace with what its programs do.
func TestStats(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	p := h.pyro()
	id, idle := p.create("--network-policy", "egress", "--mem-mib", "512"), p.create("--mem-mib", "512")
	stats := func(of string) map[string]any {
		t.Helper()
		return p.object("workspace", "stats", of)["workspaces"].([]any)[0].(map[string]any)
	}
	number := func(of, field string) float64 {
		t.Helper()
		m, ok := stats(of)["machine"].(map[string]any)
		if !ok {
			t.Fatalf("%s has no machine", of)
		}
		return m[field].(float64)
	}
	becomes := func(what, of, field string, so func(float64) bool) {
		t.Helper()
		got := number(of, field)
		for began := time.Now(); !so(got); got = number(of, field) {
			if time.Since(began) > patience {
				t.Fatalf("%s: %s is %v", what, field, got)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	p.shell(id, "true")
	memory, seconds, disk := number(id, "mem_bytes"), number(id, "cpu_seconds"), stats(id)["disk_bytes"].(float64)
	if limit := number(id, "mem_limit_bytes"); limit != 512<<20 || memory <= 0 || memory >= limit {
		t.Errorf("%v of %v bytes", memory, limit)
	}

	p.must("workspace", "service", "start", id, "busy", "--", "sh", "-c", "while :; do :; done")
	becomes("a loop", id, "cpu_percent", func(n float64) bool { return n > 2 }) // only 2 %, because a busy host leaves little processor time for it
	becomes("a loop", id, "cpu_seconds", func(n float64) bool { return n > seconds+1 })
	p.must("workspace", "service", "stop", id, "busy")
	becomes("after a loop", id, "cpu_percent", func(n float64) bool { return n < 20 })
	becomes("a workspace that does nothing", idle, "cpu_percent", func(n float64) bool { return n < 20 })

	p.must("workspace", "service", "start", id, "large", "--ready-file", "/workspace/ready", "--ready-timeout-seconds", "120", "--",
		"python3", "-c", "b = bytearray(b'x') * (200 << 20); open('/workspace/ready', 'w').close(); import time; time.sleep(1000)")
	becomes("an allocation", id, "mem_bytes", func(n float64) bool { return n > memory+150<<20 })
	p.must("workspace", "service", "stop", id, "large")
	becomes("after an allocation", id, "mem_bytes", func(n float64) bool { return n < memory+100<<20 })

	p.shell(id, "head -c 30000000 /dev/urandom >big && sync")
	for began := time.Now(); stats(id)["disk_bytes"].(float64) < disk+30_000_000; time.Sleep(500 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("disk: %v, before %v", stats(id), disk)
		}
	}

	if number(id, "sent_bytes") != 0 || number(id, "received_bytes") != 0 {
		t.Errorf("before a download: %v", stats(id))
	}
	p.shell(id, fmt.Sprintf("python3 -c \"import urllib.request; urllib.request.urlopen(urllib.request.Request('http://%s/', bytes(100000), method='POST')).read()\"", public))
	if sent, received := number(id, "sent_bytes"), number(id, "received_bytes"); sent < 100_000 || sent > 101_000 || received < 20 || received > 1000 {
		t.Errorf("sent %v, received %v", sent, received)
	}

	p.must("workspace", "stop", idle)
	if s := stats(idle); s["machine"] != nil || s["state"] != "stopped" || s["disk_bytes"].(float64) <= 0 {
		t.Errorf("a stopped workspace: %v", s)
	}
	p.pause(id)
	if s := stats(id); s["machine"] != nil || s["state"] != "paused" || s["disk_bytes"].(float64) < 30_000_000 {
		t.Errorf("a paused workspace: %v", s)
	}
}
