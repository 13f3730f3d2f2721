package hostnet

import "strings"

// proxies finds the proxies that are set in environment variables.
func (s *search) proxies() {
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy"} {
		upper := strings.ToUpper(name)
		from := s.variable(name, upper)
		if from.value == "" {
			continue
		}
		if !strings.Contains(from.value, "://") { // curl and others accept HOST:PORT
			from.value = "http://" + from.value
		}
		s.add(s.byURL("proxy", upper, from, "", upper, name))
	}
	if from := s.variable("no_proxy", "NO_PROXY"); from.value != "" {
		s.add(Setting{Tool: "proxy", Name: "NO_PROXY", Value: from.value, Source: from.from, variables: []string{"NO_PROXY", "no_proxy"}})
	}
}
