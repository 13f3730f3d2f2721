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

// maxFamily is the largest number of processes of a machine that are counted.
const maxFamily = 4096

// processorTime returns the processor time that the given processes and all their descendants have
// used, including reaped ones. It also returns the PIDs of those that still exist.
//
// It reads only the necessary files of /proc, and avoids the slower functions of package os. The
// reason is that it can run twice a second for each machine of a host.
func processorTime(pids []int) (total time.Duration, family []int) {
	buffer := make([]byte, maxFamily*len("4194304 ")) // 4194304 is the largest PID on Linux
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

// startedBy returns the children of all threads of a process. process is the path of its folder in
// /proc.
func startedBy(process string, buffer []byte) (children []int) {
	tasks, err := os.Open(process + "/task")
	if err != nil {
		return nil // the process has ended
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

// read returns the start of a kernel file, as much as fits into buffer. It returns nothing if the
// file does not exist.
func read(path string, buffer []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	have := 0
	for have < len(buffer) { // the kernel returns at most one page per read
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

// tick is the unit of times in /proc. It is the same on all supported platforms.
const tick = 10 * time.Millisecond

// reapedBy returns the processor time of the children that a process has reaped. stat is the
// content of the process's stat file.
func reapedBy(stat []byte) time.Duration {
	fields := bytes.Fields(stat[max(bytes.LastIndexByte(stat, ')'), 0):]) // fields[0] is the end of the second field of the file
	var ticks int64
	for i := 14; i < 16 && i < len(fields); i++ { // cutime, cstime
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}
