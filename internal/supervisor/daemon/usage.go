package daemon

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// usage tells what the machine takes. Who only looks keeps no machine alive: it is no activity.
func (s *server) usage(w http.ResponseWriter, r *http.Request) {
	err := s.daemon.released(r.Context())
	var u remote.Usage
	if err == nil {
		u, err = s.daemon.usage(r.Context())
	}
	if err != nil {
		w.Header().Set(remote.ErrorTrailer, remote.EncodeError(err))
		w.WriteHeader(fault.HTTPStatus(fault.KindOf(err)))
		return
	}
	w.Header().Set("Trailer", remote.WholeTrailer)
	if remote.WriteUsage(w, u) == nil {
		w.Header().Set(remote.WholeTrailer, "1")
	}
}

// usage measures: processor time by what the host's kernel has counted for the machine's processes, memory by what the machine says, storage by what its folder takes.
func (d *daemon) usage(ctx context.Context) (u remote.Usage, err error) {
	u.CPU = processorTime(d.machine.PID())
	var meminfo bytes.Buffer
	if _, err := d.machine.Agent.ReadFile(ctx, "/proc/meminfo", 0, 64<<10, &meminfo); err != nil {
		return u, err
	}
	u.MemBytes = memoryUsed(meminfo.Bytes())
	u.DiskBytes = d.stored.bytes(ctx, string(d.folder))
	return u, nil
}

// memoryUsed is what is not available, by what /proc/meminfo says.
func memoryUsed(meminfo []byte) int64 {
	amount := map[string]int64{}
	for lines := bufio.NewScanner(bytes.NewReader(meminfo)); lines.Scan(); {
		var name string
		var kib int64
		if n, _ := fmt.Sscan(lines.Text(), &name, &kib); n == 2 {
			amount[strings.TrimSuffix(name, ":")] = kib
		}
	}
	free, ok := amount["MemAvailable"]
	if !ok {
		free = amount["MemFree"]
	}
	return max(amount["MemTotal"]-free, 0) << 10
}

// maxFamily bounds how many processes of a machine are looked at.
const maxFamily = 4096

// processorTime is what a process and all below it have used, and those of them that were reaped.
func processorTime(pid int) (total time.Duration) {
	for all := []int{pid}; len(all) > 0 && len(all) < maxFamily; {
		pid, all = all[len(all)-1], all[:len(all)-1]
		total += timeOf(pid)
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for child := range strings.FieldsSeq(string(text)) {
				if n, err := strconv.Atoi(child); err == nil {
					all = append(all, n)
				}
			}
		}
	}
	return total
}

// tick is the unit of times in /proc, which is the same on all of Linux's platforms that there are machines on.
const tick = 10 * time.Millisecond

// timeOf is what a process has used, and those of its children that it has reaped.
func timeOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text[max(bytes.LastIndexByte(text, ')'), 0):]), " ")
	fields := strings.Fields(after) // from the state on, which is the third
	var ticks int64
	for i := 11; i < 15 && i < len(fields); i++ { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// stored knows what a folder takes. It is measured anew when that has not cost much for a while: a folder may hold a million files.
type stored struct {
	mu    sync.Mutex
	next  time.Time
	known int64
}

// measureShare is how much longer than a measurement the time between two of them is.
const measureShare = 50

func (s *stored) bytes(ctx context.Context, folder string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if began := time.Now(); began.After(s.next) {
		if n, _, err := tree.Size(ctx, folder); err == nil {
			s.known = n
		}
		s.next = time.Now().Add(time.Since(began) * measureShare)
	}
	return s.known
}
