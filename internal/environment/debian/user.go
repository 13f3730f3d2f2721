package debian

import (
	"bufio"
	"errors"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// CheckUser returns an error if the user of this process can't have other users in a user
// namespace. Builds need that. Root always can. Each other user needs a range of subordinate IDs in
// /etc/subuid and /etc/subgid. System users get none when they are created.
func CheckUser() error {
	if os.Geteuid() == 0 {
		return nil
	}
	id := strconv.Itoa(os.Geteuid())
	name := id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if err := hasRange(file, name, id); err != nil {
			return fault.New(fault.Unavailable, "find a range of subordinate IDs for user", name, "%w", err).
				WithHint("sudo usermod --add-subuids 500000000-500065535 --add-subgids 500000000-500065535 %s", name)
		}
	}
	return nil
}

// hasRange returns an error if a file has no range for a user. Its lines have the form
// USER:FIRST:COUNT. USER is one of the names.
func hasRange(file string, names ...string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, _, found := strings.Cut(strings.TrimSpace(lines.Text()), ":"); found && slices.Contains(names, name) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New(file + " has none")
}
