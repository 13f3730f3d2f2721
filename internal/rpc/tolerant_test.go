package rpc

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestTolerant(t *testing.T) {
	for given, want := range map[string]string{
		`{"a":30.0,"b":[3e1,-2.50E+1,1.5],"c":{"d":0.0}}`: `{"a":30,"b":[30,-25,1.5],"c":{"d":0}}`,
		`{"a":-0.0,"b":1e300,"c":9007199254740992.0}`:     `{"a":0,"b":1e300,"c":9007199254740992.0}`,
		`{"a\"1.0":"2.0\\","b":"\\\"3.0"}`:                `{"a\"1.0":"2.0\\","b":"\\\"3.0"}`,
		`{"a":null,"b":{"c":null},"d":[null]}`:            `{"b":{"c":null},"d":[null]}`,
		`{"a":1,"a":null}`:                                `{}`,
		`[1.0, null]`:                                     `[1, null]`,
		`1.0`:                                             `1`,
		`{"a":1.0`:                                        `{"a":1.0`,
		``:                                                ``,
	} {
		if got := Tolerant([]byte(given)); string(got) != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

// FuzzTolerant checks that the numbers of a value do not change.
func FuzzTolerant(f *testing.F) {
	f.Add([]byte(`{"a":[1.0,-2e3,{"b":"\"1.0","c":null}],"d":0.5}`))
	f.Fuzz(func(t *testing.T, given []byte) {
		got := integers(given)
		var before, after any
		if json.Unmarshal(given, &before) != nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	})
}
