package hostnet

import (
	"cmp"
	"path/filepath"
	"strings"
)

// goModules finds Go's settings for modules.
func (s *search) goModules() {
	path := cmp.Or(s.Env("GOENV"), filepath.Join(cmp.Or(s.Env("XDG_CONFIG_HOME"), s.home(".config")), "go/env"))
	file := entries(s.read(path))
	get := func(name string) source { return first(s.variable(name), source{lookup(file, "", name), path}) }
	if from := get("GOPROXY"); from.value != "" {
		s.add(s.byURL("go", "GOPROXY", from, ",|", "GOPROXY"))
	} else {
		s.add(byDefault("go", "GOPROXY", "https://proxy.golang.org,direct", "proxy.golang.org:443"))
	}
	from := get("GOSUMDB")
	sums := Setting{Tool: "go", Name: "GOSUMDB", Value: from.value, Source: from.from, variables: []string{"GOSUMDB"}}
	switch words := strings.Fields(from.value); {
	case from.value == "":
		sums = byDefault("go", "GOSUMDB", "sum.golang.org", "sum.golang.org:443")
	case len(words) > 1: // KEY URL
		sums.Value, _ = s.url(&sums, words[1])
		sums.Value = words[0] + " " + sums.Value
	case from.value != "off":
		name, _, _ := strings.Cut(words[0], "+")
		s.url(&sums, "https://"+name)
	}
	s.add(sums)
	for _, name := range []string{"GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE"} {
		if from := get(name); from.value != "" {
			s.add(Setting{Tool: "go", Name: name, Value: from.value, Source: from.from, variables: []string{name}})
		}
	}
}
