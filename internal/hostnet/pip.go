package hostnet

import (
	"cmp"
	"path/filepath"
)

// pip finds the indexes of pip. Other tools for Python, such as uv, get the same settings.
func (s *search) pip() {
	var file []entry
	path := ""
	for _, p := range []string{"/etc/pip.conf", s.home(".pip/pip.conf"), filepath.Join(cmp.Or(s.Env("XDG_CONFIG_HOME"), s.home(".config")), "pip/pip.conf"), s.Env("PIP_CONFIG_FILE")} {
		if text := s.read(p); text != "" {
			file, path = append(file, entries(text)...), p
		}
	}
	get := func(variable, name string) source {
		return first(s.variable(variable), source{lookup(file, "install", name), path}, source{lookup(file, "global", name), path})
	}
	if from := get("PIP_INDEX_URL", "index-url"); from.value != "" {
		s.add(s.byURL("pip", "index-url", from, "", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"))
	} else {
		s.add(byDefault("pip", "index-url", "https://pypi.org/simple", "pypi.org:443", "files.pythonhosted.org:443"))
	}
	if from := get("PIP_EXTRA_INDEX_URL", "extra-index-url"); from.value != "" {
		s.add(s.byURL("pip", "extra-index-url", from, " \t\n", "PIP_EXTRA_INDEX_URL", "UV_INDEX"))
	}
	if from := get("PIP_TRUSTED_HOST", "trusted-host"); from.value != "" {
		s.add(Setting{Tool: "pip", Name: "trusted-host", Value: from.value, Source: from.from, variables: []string{"PIP_TRUSTED_HOST"}})
	}
	if from := get("PIP_CERT", "cert"); from.value != "" {
		s.certificatesOf(from.value)
	}
}
