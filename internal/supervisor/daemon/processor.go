package daemon

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxFamily bounds how many processes of a machine are looked at.
const maxFamily = 4096

// processorTime is what a process and all below it have used, and those of them that were reaped. It is asked for twice a second of each of a host's machines: so it reads
// no more than it needs, and those files without what package os does for others.
func processorTime(pid int) (total time.Duration) {
	buffer := make([]byte, 4<<10)
	for all := []int{pid}; len(all) > 0 && len(all) < maxFamily; {
		process := "/proc/" + strconv.Itoa(all[len(all)-1])
		all = all[:len(all)-1]
		total += timeOf(read(process+"/stat", buffer))
		tasks, _ := os.Open(process + "/task")
		threads, _ := tasks.Readdirnames(-1)
		tasks.Close()
		for _, thread := range threads {
			for child := range bytes.FieldsSeq(read(process+"/task/"+thread+"/children", buffer)) {
				if n, err := strconv.Atoi(string(child)); err == nil {
					all = append(all, n)
				}
			}
		}
	}
	return total
}

// read gives what a file of the kernel's begins with, as much as there is room for; nothing of one that is gone.
func read(path string, buffer []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, buffer)
	return buffer[:max(n, 0)]
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
