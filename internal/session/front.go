package session

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// Front is what is in the foreground of a session's terminal, which gets what is typed.
type Front struct {
	Group   int    // of processes, 0: it is not known
	Command string // of the process that leads it, as it could be typed, up to maxFront bytes
	Cwd     string // its working folder, "": it is not known
}

const maxFront = 4 << 10

// Front tells what that is now, as far as the kernel tells.
func (i Info) Front() Front {
	group := Foreground(i.PID)
	if !i.Running() || i.Backend == Workspace || group <= 0 {
		return Front{}
	}
	file, err := os.Open("/proc/" + strconv.Itoa(group) + "/cmdline")
	if err != nil {
		return Front{}
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFront))
	if err != nil || len(text) == 0 {
		return Front{}
	}
	words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	words[0] = strings.TrimPrefix(words[0], "-") // of a login shell
	for n, word := range words {
		words[n] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	cwd, _ := os.Readlink("/proc/" + strconv.Itoa(group) + "/cwd")
	return Front{group, strings.Join(words, " "), cwd}
}

// Foreground is the process group in the foreground of the terminal of a process. It is not above 0 where there is none, or where that is not known.
func Foreground(pid int) int {
	s, _ := statOf(pid)
	return s.foreground
}
