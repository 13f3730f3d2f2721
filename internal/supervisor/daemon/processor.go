package daemon

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// maxFamily bounds how many processes of a machine are looked at.
const maxFamily = 4096

// processorTime returns the processor time that processes and all below them have used, with those
// that were reaped, and the processes that are there. It reads no more of /proc than it needs, and
// without what package os does for others: it may run twice a second for each of a host's machines.
func processorTime(pids []int) (total time.Duration, family []int) {
	buffer := make([]byte, maxFamily*len("4194304 ")) // the highest number of a process that Linux gives
	for all := slices.Clone(pids); len(all) > 0 && len(all) < maxFamily; {
		pid := all[len(all)-1]
		all = all[:len(all)-1]
		own, ok := remote.ProcessorTime(pid)
		if !ok {
			continue
		}
		process := "/proc/" + strconv.Itoa(pid)
		total += own + reapedBy(read(process+"/stat", buffer))
		family = append(family, pid)
		all = append(all, startedBy(process, buffer)...)
	}
	return total, family
}

// startedBy gives the children of all threads of a process, which is a folder of /proc.
func startedBy(process string, buffer []byte) (children []int) {
	tasks, err := os.Open(process + "/task")
	if err != nil {
		return nil // it is gone
	}
	defer tasks.Close()
	threads, _ := tasks.Readdirnames(-1)
	for _, thread := range threads {
		for child := range bytes.FieldsSeq(read(process+"/task/"+thread+"/children", buffer)) {
			if n, err := strconv.Atoi(string(child)); err == nil {
				children = append(children, n)
			}
		}
	}
	return children
}

// read gives what a file of the kernel's begins with, as much as there is room for; nothing of one that is gone.
func read(path string, buffer []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	have := 0
	for have < len(buffer) { // the kernel gives a page at a time
		n, err := unix.Read(fd, buffer[have:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			break
		}
		have += n
	}
	return buffer[:have]
}

// tick is the unit of times in /proc, which is the same on all of Linux's platforms that there are machines on.
const tick = 10 * time.Millisecond

// reapedBy returns what the children have used that a process has reaped, as its stat says.
func reapedBy(stat []byte) time.Duration {
	fields := bytes.Fields(stat[max(bytes.LastIndexByte(stat, ')'), 0):]) // from before the state on, which is the third
	var ticks int64
	for i := 14; i < 16 && i < len(fields); i++ { // cutime, cstime
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}
