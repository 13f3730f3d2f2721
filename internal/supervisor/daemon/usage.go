package daemon

import (
	"bytes"
	"context"
	"net/http"
	"os"
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
	u.CPU, u.Processes = processorTime(processesOf(d.machine.Machine()))
	if u.Supervisor = os.Getpid(); len(u.Processes) > maxTold {
		u.Processes = nil
	}
	var meminfo bytes.Buffer
	if _, err := d.machine.Agent.ReadFile(ctx, "/proc/meminfo", 0, maxMeminfo, &meminfo); err != nil {
		return u, err
	}
	u.MemBytes = memoryUsed(meminfo.Bytes())
	u.DiskBytes = d.stored.bytes(ctx, string(d.folder))
	return u, nil
}

// maxTold bounds how many processes are told of: to read the clocks of more takes longer than to ask.
const maxTold = 256

// maxMeminfo bounds what is read of /proc/meminfo, which begins with what is looked for.
const maxMeminfo = 4 << 10

// memoryUsed is what is not available, by what /proc/meminfo says.
func memoryUsed(meminfo []byte) int64 {
	var total, free int64
	for line := range bytes.Lines(meminfo) {
		name, amount, _ := strings.Cut(string(line), ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(amount), " kB"), 10, 64)
		switch name {
		case "MemTotal":
			total = kib
		case "MemFree":
			free = kib
		case "MemAvailable": // which is after both
			return max(total-kib, 0) << 10
		}
	}
	return max(total-free, 0) << 10
}

// stored knows what a folder takes. It is measured anew every few seconds, and when that has not cost much for a while: a folder may hold a million files.
type stored struct {
	mu    sync.Mutex
	next  time.Time
	known int64
}

// The time between two measurements is at least this, and this much longer than one of them.
const (
	measureEvery = 2 * time.Second
	measureShare = 50
)

func (s *stored) bytes(ctx context.Context, folder string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if began := time.Now(); began.After(s.next) {
		if n, _, err := tree.Size(ctx, folder); err == nil {
			s.known = n
		}
		s.next = time.Now().Add(max(time.Since(began)*measureShare, measureEvery))
	}
	return s.known
}
