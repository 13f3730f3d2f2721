package keeper

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/session"
)

// hint guesses from the terminal's settings, and from who is in its foreground, what the session waits for.
func (k *keeper) hint(fullScreen bool) session.Hint {
	select {
	case <-k.ended:
		return session.Ended
	default:
	}
	settings, group := k.program.foreground()
	if settings == nil {
		return session.Busy
	}
	switch canonical, echo := settings.Lflag&unix.ICANON != 0, settings.Lflag&unix.ECHO != 0; {
	case canonical && !echo:
		return session.Asking
	case fullScreen:
		return session.Pager
	case !waits(group, false):
		return session.Busy
	case isShell(group):
		return session.AtPrompt
	}
	return session.Reading
}

// hidden tells whether a program other than a shell waits for a line that is not shown.
func (k *keeper) hidden() bool {
	settings, group := k.program.foreground()
	return settings != nil && settings.Lflag&unix.ICANON != 0 && settings.Lflag&unix.ECHO == 0 && !runsCommands(nameOf(group)) && waits(group, true)
}

// nameOf is the name of a process.
func nameOf(pid int) string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSuffix(string(name), "\n")
}

// runsCommands tells whether a program is a shell, by its name. What has none is no other.
func runsCommands(name string) bool {
	switch name {
	case "", "bash", "sh", "dash", "zsh", "ksh", "fish", "ash", "busybox":
		return true
	}
	return false
}

// isShell tells whether a process is one with a prompt, by its name.
func isShell(pid int) bool {
	switch name := nameOf(pid); name {
	case "python3", "python", "node", "irb", "psql", "sqlite3", "mysql", "gdb":
		return true
	default:
		return name != "" && runsCommands(name)
	}
}

// waits tells whether a process waits for input from a terminal, or may do so. private is told of one that the kernel tells nothing of, since it has more rights than this
// one, such as sudo.
func waits(pid int, private bool) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall")
	if errors.Is(err, os.ErrPermission) {
		return private
	}
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return false
	}
	call, err := strconv.Atoi(fields[0])
	if err != nil { // it runs
		return false
	}
	if call != unix.SYS_READ && call != unix.SYS_READV {
		return slices.Contains(polls, call)
	}
	fd, err := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 32)
	if err != nil {
		return false
	}
	file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	return file == "/dev/tty" || strings.HasPrefix(file, "/dev/pts/")
}

// polls are the system calls that wait for any of several files.
var polls = func() []int {
	all := []int{unix.SYS_PSELECT6, unix.SYS_PPOLL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}
	if runtime.GOARCH == "amd64" {
		all = append(all, 7, 23, 232) // poll, select, epoll_wait: newer architectures have none
	}
	return all
}()
