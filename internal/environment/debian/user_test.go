package debian

import (
	"strings"
	"testing"
)

func TestParseRanges(t *testing.T) {
	for text, want := range map[string]struct {
		own  bool
		next int
	}{
		"":                                 {},
		"pyro\n":                           {},
		"pyro:many:65536\n":                {},
		"pyromaniac:100000:65536\n":        {next: 165536},
		"me:165536:65536\npyro:100000:9":   {own: true, next: 231072},
		"999:100000:65536\n":               {own: true, next: 165536},
		"me:4294967295:1\n#pyro:1:1\nme::": {next: 4294967296},
	} {
		own, next, err := parseRanges(strings.NewReader(text), "pyro", "999")
		if own != want.own || next != want.next || err != nil {
			t.Errorf("%q: %v, %d, %v", text, own, next, err)
		}
	}
}
