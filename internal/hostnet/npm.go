package hostnet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/secret"
)

// npmToken is the variable that contains the token of a registry. npm's configuration refers to it.
// If there are more tokens, the next variables are NPM_TOKEN_2 and so on.
const npmToken = "NPM_TOKEN"

// npm finds the registries of npm.
func (s *search) npm() {
	paths := []string{"/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc", cmp.Or(s.Env("NPM_CONFIG_USERCONFIG"), s.Env("npm_config_userconfig"), s.home(".npmrc"))}
	registry := s.variable("npm_config_registry", "NPM_CONFIG_REGISTRY")
	tokens := map[string]source{}
	for _, path := range paths {
		for _, e := range entries(s.read(path)) {
			from := source{e.value, path}
			switch {
			case e.name == "registry" && !strings.HasPrefix(registry.from, "$"):
				registry = from
			case strings.HasPrefix(e.name, "@") && strings.HasSuffix(e.name, ":registry"):
				s.registry(e.name, from)
			case strings.HasPrefix(e.name, "//") && (strings.HasSuffix(e.name, ":_authToken") || strings.HasSuffix(e.name, ":_auth")):
				tokens[e.name] = from
			case e.name == "cafile":
				s.certificatesOf(e.value)
			}
		}
	}
	if registry.value == "" {
		s.add(byDefault("npm", "registry", "https://registry.npmjs.org/", "registry.npmjs.org:443"))
	} else {
		s.registry("registry", registry)
	}
	variable := npmToken
	for i, name := range slices.Sorted(maps.Keys(tokens)) {
		from := tokens[name]
		if reference, ok := strings.CutPrefix(from.value, "${"); ok {
			from.value = s.Env(strings.TrimSuffix(reference, "}"))
		}
		if from.value == "" {
			continue
		}
		s.add(Setting{Tool: "npm", Name: name, Value: secret.Hidden, Source: from.from, Credential: variable, secret: secret.New(from.value)})
		variable = fmt.Sprintf("%s_%d", npmToken, i+2)
	}
}

// registry adds a registry of npm, for all packages or for the packages of a scope.
func (s *search) registry(name string, from source) {
	found := s.byURL("npm", name, from, "", "npm_config_registry")
	if name != "registry" {
		found.variables = nil
	}
	found.Credential = "" // npm wants a token instead
	s.add(found)
	if found.Unusable == "" {
		s.found.npm = append(s.found.npm, name+"="+found.Value)
	}
}
