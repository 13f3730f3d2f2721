package debian

import (
	"context"
	"os"
	"os/exec"
	"strings"
)

// hostOptions returns the host's apt settings that its mirrors might require: proxies, and checks
// of the index date. A build uses these settings, but does not store them in the environment.
func hostOptions(ctx context.Context) []string {
	out, err := exec.CommandContext(ctx, "apt-config", "dump", "--no-empty").Output()
	if err != nil {
		return nil
	}
	var options []string
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, " ")
		lower := strings.ToLower(name)
		proxy := strings.HasPrefix(lower, "acquire::http::proxy") || strings.HasPrefix(lower, "acquire::https::proxy")
		if proxy || lower == "acquire::check-valid-until" || lower == "acquire::check-date" {
			options = append(options, strings.TrimSuffix(strings.TrimSpace(line), ";"))
		}
	}
	return options
}

// environ returns the environment variables for the tools. They include the few variables of the
// user that are necessary to reach a mirror.
func environ(tmp string) []string {
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "TMPDIR=" + tmp}
	for _, name := range []string{"HOME", "USER", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
