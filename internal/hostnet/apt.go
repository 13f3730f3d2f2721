package hostnet

import (
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/environment/debian"
)

// archives has the default servers of each archive of a distribution. A key is the last element of
// the archive's path.
var archives = map[string][]string{
	"debian":          {"deb.debian.org", "ftp.debian.org", "httpredir.debian.org"},
	"debian-security": {"security.debian.org", "deb.debian.org"},
	"ubuntu":          {"archive.ubuntu.com", "security.ubuntu.com"},
	"ubuntu-ports":    {"ports.ubuntu.com"},
}

// apt finds the mirrors of apt. It does not change third-party archives, because environments have
// none.
func (s *search) apt() {
	s.found.mirrors = map[string]string{}
	for _, uri := range debian.Archives(filepath.Join("/", s.Root)) {
		u, err := url.Parse(strings.TrimSuffix(uri, "/"))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			continue
		}
		name := path.Base(u.Path)
		if archives[name] == nil || s.found.mirrors[name] != "" || slices.Contains(archives[name], u.Hostname()) {
			continue
		}
		mirror := s.byURL("apt", name, source{u.String(), "apt"}, "")
		mirror.Credential = "" // without its password the mirror is of no use
		if u.User != nil {
			mirror.Unusable = "it needs a password"
		}
		s.add(mirror)
		if mirror.Unusable == "" {
			s.found.mirrors[name] = mirror.Value
		}
	}
	if len(s.found.mirrors) == 0 {
		s.add(byDefault("apt", "debian", "http://deb.debian.org/debian", "deb.debian.org:80", "deb.debian.org:443", "security.debian.org:80", "security.debian.org:443"))
	}
	s.aptProxies()
}

// aptProxies finds the proxies in apt's configuration.
func (s *search) aptProxies() {
	for _, name := range []string{"Acquire::http::Proxy", "Acquire::https::Proxy"} {
		from := source{}
		for _, file := range s.glob("/etc/apt/apt.conf", "/etc/apt/apt.conf.d/*") {
			if value := aptValue(s.read(file), name); value != "" {
				from = source{value, file}
			}
		}
		if from.value == "" || strings.EqualFold(from.value, "DIRECT") {
			continue
		}
		proxy := s.byURL("apt", name, from, "")
		proxy.Credential = ""
		s.add(proxy)
		if proxy.Unusable == "" {
			s.found.apt = append(s.found.apt, name+` "`+proxy.Value+`";`)
		}
	}
}

// aptValue returns the last value of a name in apt.conf(5), if it is written in one line.
func aptValue(text, name string) (value string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if len(line) > len(name) && strings.EqualFold(line[:len(name)], name) && (line[len(name)] == ' ' || line[len(name)] == '\t') {
			value = strings.Trim(strings.TrimSuffix(strings.TrimSpace(line[len(name):]), ";"), `"`)
		}
	}
	return value
}

// rewrite replaces the default servers of archives in the text of an apt source file.
func rewrite(text string, mirrors map[string]string) string {
	for name, mirror := range mirrors {
		for _, server := range archives[name] {
			for _, scheme := range []string{"http", "https"} {
				text = replaceURI(text, scheme+"://"+server+"/"+name, mirror)
			}
		}
	}
	return text
}

// replaceURI replaces a URI that ends there, so that debian does not match debian-security.
func replaceURI(text, uri, by string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, uri)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if rest := strings.TrimPrefix(after, "/"); rest == "" || strings.ContainsRune(" \t\r\n", rune(rest[0])) {
			b.WriteString(by)
		} else {
			b.WriteString(uri)
		}
		text = after
	}
}
