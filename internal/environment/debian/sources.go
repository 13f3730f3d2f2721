package debian

import (
	"bufio"
	"cmp"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Source is an apt source: the component main of one suite on one mirror.
type Source struct {
	URI, Suite string
	SignedBy   string // path of the keyring on the host
}

// Line formats the source in apt's one-line format.
func (s Source) Line() string {
	return "deb [signed-by=\"" + s.SignedBy + "\"] " + s.URI + " " + s.Suite + " main\n"
}

const (
	suite   = "bookworm"
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

var suites = []string{suite, suite + "-updates", suite + "-security"}

var defaultSources = []Source{
	{"http://deb.debian.org/debian", suite, keyring},
	{"http://deb.debian.org/debian", suite + "-updates", keyring},
	{"http://security.debian.org/debian-security", suite + "-security", keyring},
}

// Sources returns the host's mirrors of Debian 12. If the host has none, it returns Debian's own
// mirrors. root is the root of the host's file system. Sources skips third-party archives, because
// they have their own keys and do not belong in an environment.
func Sources(root string) []Source {
	found := slices.DeleteFunc(configured(root), func(s Source) bool { return !ofDebian(s) })
	for i := range found {
		found[i].SignedBy = cmp.Or(found[i].SignedBy, keyring)
	}
	if !slices.ContainsFunc(found, func(s Source) bool { return s.Suite == suite }) {
		return slices.Clone(defaultSources)
	}
	slices.SortStableFunc(found, func(a, b Source) int { return slices.Index(suites, a.Suite) - slices.Index(suites, b.Suite) })
	return slices.Compact(found)
}

// Archives returns the URIs of all apt sources of a host. They include the sources of other
// distributions and of third parties. root is the root of the host's file system.
func Archives(root string) (all []string) {
	for _, s := range configured(root) {
		if !slices.Contains(all, s.URI) {
			all = append(all, s.URI)
		}
	}
	return all
}

// configured returns the sources in the host's files for apt.
func configured(root string) (found []Source) {
	files, _ := filepath.Glob(filepath.Join(root, "etc/apt/sources.list.d/*"))
	files = append([]string{filepath.Join(root, "etc/apt/sources.list")}, files...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		switch filepath.Ext(file) {
		case ".list":
			found = append(found, parseList(string(text))...)
		case ".sources":
			found = append(found, parseDeb822(string(text))...)
		}
	}
	return found
}

// GuestSources returns the sources for machines. It replaces sources that work only on the host.
func GuestSources(host []Source) []Source {
	guest := slices.Clone(host)
	for i, s := range guest {
		u, err := url.Parse(s.URI)
		if err != nil || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") {
			guest[i] = defaultSources[slices.Index(suites, s.Suite)]
		}
		guest[i].SignedBy = keyring
	}
	return guest
}

// parseList parses the one-line format of sources.list(5).
func parseList(text string) (sources []Source) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind != "deb" {
			continue
		}
		signedBy := ""
		if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "[") {
			options, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				continue
			}
			for _, option := range strings.Fields(options) {
				if path, ok := strings.CutPrefix(option, "signed-by="); ok {
					signedBy = strings.Trim(path, `"`)
				}
			}
			rest = after
		}
		if words := strings.Fields(rest); len(words) >= 3 && slices.Contains(words[2:], "main") {
			sources = append(sources, Source{words[0], words[1], signedBy})
		}
	}
	return sources
}

// parseDeb822 parses the deb822 format of sources.list(5).
func parseDeb822(text string) (sources []Source) {
	fields, last := map[string]string{}, ""
	flush := func() {
		kinds, components := strings.Fields(fields["types"]), strings.Fields(fields["components"])
		if slices.Contains(kinds, "deb") && slices.Contains(components, "main") && !isNo(fields["enabled"]) {
			for _, uri := range strings.Fields(fields["uris"]) {
				for _, suite := range strings.Fields(fields["suites"]) {
					sources = append(sources, Source{uri, suite, strings.TrimSpace(fields["signed-by"])})
				}
			}
		}
		clear(fields)
		last = ""
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			flush()
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += "\n" + strings.TrimSpace(line)
		default:
			name, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(strings.TrimSpace(name))
			fields[last] = strings.TrimSpace(value)
		}
	}
	flush()
	return sources
}

func isNo(value string) bool {
	return slices.Contains([]string{"no", "false", "without", "off", "disable", "0"}, strings.ToLower(value))
}

// ofDebian reports whether a source is a mirror of Debian 12. It checks the suite, the key and the
// path. The paths of all mirrors contain "debian" or "debian-security".
func ofDebian(s Source) bool {
	u, err := url.Parse(s.URI)
	if err != nil || !slices.Contains(suites, s.Suite) {
		return false
	}
	switch u.Scheme {
	case "http", "https", "mirror+file", "mirror+http", "mirror+https":
	default:
		return false
	}
	named := slices.ContainsFunc(strings.Split(u.Path+"/"+u.Opaque, "/"), func(part string) bool {
		part = strings.TrimSuffix(part, ".list")
		return part == "debian" || part == "debian-security"
	})
	key := path.Base(s.SignedBy)
	return (named || u.Host == "security.debian.org") && (s.SignedBy == "" || path.IsAbs(s.SignedBy) && strings.HasPrefix(key, "debian-archive"))
}
