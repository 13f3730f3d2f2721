package process

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

// hint guesses what the session waits for, from the settings of the terminal and its foreground
// process.
func (p *sessionProcess) hint(fullScreen bool) session.Hint {
	select {
	case <-p.ended:
		return session.Ended
	default:
	}
	settings, group := p.program.foreground()
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

// hidden reports whether a program other than a shell reads a line while echo is off.
func (p *sessionProcess) hidden() bool {
	settings, group := p.program.foreground()
	return settings != nil && settings.Lflag&unix.ICANON != 0 && settings.Lflag&unix.ECHO == 0 && !runsCommands(nameOf(group)) && waits(group, true)
}

// nameOf returns the name of a process.
func nameOf(pid int) string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSuffix(string(name), "\n")
}

// runsCommands reports whether name is the name of a shell. An unknown name counts as a shell.
func runsCommands(name string) bool {
	switch name {
	case "", "bash", "sh", "dash", "zsh", "ksh", "fish", "ash", "busybox":
		return true
	}
	return false
}

// isShell reports whether a process is an interpreter with a prompt, judging by its name.
func isShell(pid int) bool {
	switch name := nameOf(pid); name {
	case "python3", "python", "node", "irb", "psql", "sqlite3", "mysql", "gdb":
		return true
	default:
		return name != "" && runsCommands(name)
	}
}

// waits reports whether a process waits for input from a terminal. The kernel does not report this
// for processes with more privileges, such as sudo. For those, waits returns private.
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
	if err != nil { // the process runs
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

// polls are the system calls that can wait for several files.
var polls = func() []int {
	all := []int{unix.SYS_PSELECT6, unix.SYS_PPOLL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}
	if runtime.GOARCH == "amd64" {
		all = append(all, 7, 23, 232) // poll, select, epoll_wait; newer architectures do not have them
	}
	return all
}()
