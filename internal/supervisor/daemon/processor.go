package daemon

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxFamily bounds how many processes of a machine are looked at.
const maxFamily = 4096

// processorTime is what processes and all below them have used, and those of them that were reaped. It is asked for twice a second of each of a host's machines: so it reads
// no more than it needs, and those files without what package os does for others.
func processorTime(pids []int) (total time.Duration) {
	buffer := make([]byte, maxFamily*len("4194304 ")) // the highest number of a process that Linux gives
	for all := slices.Clone(pids); len(all) > 0 && len(all) < maxFamily; {
		process := "/proc/" + strconv.Itoa(all[len(all)-1])
		all = all[:len(all)-1]
		total += timeOf(read(process+"/stat", buffer))
		all = append(all, startedBy(process, buffer)...)
	}
	return total
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

// timeOf is what a process has used, and those of its children that it has reaped, as its stat says.
func timeOf(stat []byte) time.Duration {
	fields := bytes.Fields(stat[max(bytes.LastIndexByte(stat, ')'), 0):]) // from before the state on, which is the third
	var ticks int64
	for i := 12; i < 16 && i < len(fields); i++ { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}
