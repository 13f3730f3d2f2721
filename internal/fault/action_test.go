package fault

import (
	"encoding/json"
	"testing"
)

func TestActions(t *testing.T) {
	agent := func(a Action) string { return "call " + a.Tool + " " + a.With }
	err := New(Exists, "do", "x", "y").WithHint("%s keeps %s", Act("thing_stop", "pyro thing stop %s", "t-1").Taking("name %q", "n"), "100% of it")
	for name, e := range map[string]error{"itself": err, "wrapped": Wrap(err, "more", "")} {
		if got := HintOf(e); got != "pyro thing stop t-1 keeps 100% of it" {
			t.Errorf("%s: %q", name, got)
		}
		if got := HintFor(e, agent); got != `call thing_stop name "n" keeps 100% of it` {
			t.Errorf("%s: %q", name, got)
		}
	}
	text, jerr := json.Marshal(WireOf(Wrap(err, "more", "")))
	var w Wire
	if jerr != nil || json.Unmarshal(text, &w) != nil {
		t.Fatal(jerr)
	}
	if got := HintFor(w.Err(), agent); got != `call thing_stop name "n" keeps 100% of it` || KindOf(w.Err()) != Exists {
		t.Errorf("over the wire: %q", got)
	}
	for _, e := range []error{nil, Newf(Invalid, "x"), Newf(Invalid, "x").WithHint("look at %s", "it")} {
		if HintFor(e, agent) != HintOf(e) {
			t.Errorf("%v: %q", e, HintFor(e, agent))
		}
	}
	if again := err.WithHint("none"); HintFor(again, agent) != "none" {
		t.Errorf("a hint that was replaced: %q", HintFor(again, agent))
	}
}
