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

	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// usage answers a request for the resources that the machine uses. The request does not count as
// activity.
func (s *server) usage(w http.ResponseWriter, r *http.Request) {
	content.Serve(w, encodeError, func(w *content.Answer) error {
		if err := s.daemon.released(r.Context()); err != nil {
			return err
		}
		u, err := s.daemon.usage(r.Context())
		if err != nil {
			return err
		}
		return remote.WriteUsage(w, u)
	})
}

// usage measures the resources that the machine uses. The host's kernel counts the processor time
// of the machine's processes. The memory comes from /proc/meminfo in the machine. If the machine is
// too busy to answer, it is the memory of the last answer. The storage is the size of the
// workspace's folder. The network on the host counts the bytes that it carries.
func (d *daemon) usage(ctx context.Context) (u remote.Usage, err error) {
	u.CPU, u.Processes = processorTime(processesOf(d.machine.Machine()))
	if u.Supervisor = os.Getpid(); len(u.Processes) > maxReported {
		u.Processes = nil
	}
	if u.MemBytes, err = d.memory(ctx); err != nil {
		return u, err
	}
	u.DiskBytes = d.stored.bytes(ctx, string(d.folder))
	if stack := d.machine.Network(); stack != nil {
		sent, since := stack.Sent()
		u.SentBytes, u.SentSince, u.ReceivedBytes = sent, since.UnixNano(), stack.Received()
	}
	return u, nil
}

// meminfoTimeout is the maximum time to wait for the memory of a machine.
const meminfoTimeout = 2 * time.Second

// memory returns the memory that is used inside the machine. If the machine does not
// answer, memory does not fail: otherwise programs could hide their traffic by keeping the machine
// busy.
func (d *daemon) memory(ctx context.Context) (int64, error) {
	limited, cancel := context.WithTimeout(ctx, meminfoTimeout)
	defer cancel()
	var meminfo bytes.Buffer
	_, err := d.machine.Agent.ReadFile(limited, "/proc/meminfo", 0, maxMeminfo, &meminfo)
	switch {
	case err == nil:
		d.memoryKnown.Store(memoryUsed(meminfo.Bytes()))
	case limited.Err() == nil || ctx.Err() != nil:
		return 0, err
	}
	return d.memoryKnown.Load(), nil
}

// maxReported is the largest number of PIDs in an answer. For a client, reading more process clocks
// takes longer than another request.
const maxReported = 256

// maxMeminfo is the number of bytes of /proc/meminfo that are read. The needed fields are at its
// start.
const maxMeminfo = 4 << 10

// memoryUsed returns the memory that is not available, in bytes. It parses the text of
// /proc/meminfo.
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
		case "MemAvailable": // this field comes after the other two
			return max(total-kib, 0) << 10
		}
	}
	return max(total-free, 0) << 10
}

// stored caches the size of a folder. A folder can contain a million files, so measuring can be
// slow. It is measured at most every few seconds, and less often if measuring takes long.
type stored struct {
	mu    sync.Mutex
	next  time.Time
	known int64
}

// The time between two measurements is at least measureEvery, and at least measureShare times the
// duration of the last measurement.
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
