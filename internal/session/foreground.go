package session

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// Foreground describes the foreground process group of a session's terminal. That group gets the
// input.
type Foreground struct {
	Group   int    // process group ID; 0: unknown
	Command string // command line of the group leader, quoted for a shell and limited to maxCommandLine bytes before that
	Cwd     string // working folder of the leader; empty: unknown
}

const maxCommandLine = 4 << 10

// Foreground returns the foreground process group of the session. The fields of the result are
// empty if the kernel does not report them.
func (i Info) Foreground() Foreground {
	group := ForegroundGroup(i.PID)
	if !i.Running() || i.Backend == Workspace || group <= 0 {
		return Foreground{}
	}
	file, err := os.Open("/proc/" + strconv.Itoa(group) + "/cmdline")
	if err != nil {
		return Foreground{}
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCommandLine))
	if err != nil || len(text) == 0 {
		return Foreground{}
	}
	words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	words[0] = strings.TrimPrefix(words[0], "-") // login shells have this prefix
	for n, word := range words {
		words[n] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	cwd, _ := os.Readlink("/proc/" + strconv.Itoa(group) + "/cwd")
	return Foreground{group, strings.Join(words, " "), cwd}
}

// ForegroundGroup returns the foreground process group of a process's terminal. The result is 0 or
// negative if there is no such group or it is unknown.
func ForegroundGroup(pid int) int {
	s, _ := statOf(pid)
	return s.foreground
}
