package debian

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	firstSubordinate = 100_000 // the default of shadow, SUB_UID_MIN in /etc/login.defs
	subordinates     = 65_536  // how many IDs a user needs
)

// CheckUser returns an error if the user of this process can't have other users in a user
// namespace. Builds need that. Root always can. Each other user needs newuidmap, and a range of
// subordinate IDs in /etc/subuid and /etc/subgid. System users get none when they are created.
func CheckUser() error {
	if os.Geteuid() == 0 {
		return nil
	}
	if _, err := exec.LookPath("newuidmap"); err != nil {
		return notInstalled("newuidmap", "uidmap")
	}
	id := strconv.Itoa(os.Geteuid())
	name := id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	free := firstSubordinate
	var without []string
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		own, next, err := readRanges(file, name, id)
		if err != nil {
			return fault.Wrap(err, "read subordinate IDs", file)
		}
		if !own {
			without = append(without, file)
		}
		free = max(free, next)
	}
	if len(without) == 0 {
		return nil
	}
	last := free + subordinates - 1
	return fault.New(fault.Unavailable, "find a range of subordinate IDs for user", name, "there is none in %s", strings.Join(without, " or ")).
		WithHint("sudo usermod --add-subuids %d-%d --add-subgids %d-%d %s", free, last, free, last, name)
}

// readRanges reads the ranges of a file such as /etc/subuid. own says whether a user has one, and
// next is the first ID after all ranges. The file names the user by name or by number.
func readRanges(file, name, id string) (own bool, next int, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	defer f.Close()
	return parseRanges(f, name, id)
}

// parseRanges reads them from the text of the file. Its lines have the form USER:FIRST:COUNT.
func parseRanges(r io.Reader, name, id string) (own bool, next int, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(fields) != 3 {
			continue
		}
		first, firstErr := strconv.ParseUint(fields[1], 10, 32)
		count, countErr := strconv.ParseUint(fields[2], 10, 32)
		if firstErr != nil || countErr != nil {
			continue
		}
		next = max(next, int(first+count))
		own = own || fields[0] == name || fields[0] == id
	}
	return own, next, lines.Err()
}
