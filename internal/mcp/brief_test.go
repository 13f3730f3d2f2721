package mcp

import (
	"testing"
	"time"
)

func TestBrief(t *testing.T) {
	type inner struct {
		A    string `json:"a"`
		N    int    `json:"n"`
		Skip string `json:"-"`
	}
	type outer struct {
		*inner
		Text  string            `json:"text"`
		Flag  bool              `json:"flag"`
		At    time.Time         `json:"at"`
		Until *time.Time        `json:"until"`
		Code  *int              `json:"code"`
		Texts []string          `json:"texts"`
		Pairs map[string]string `json:"pairs"`
		Deep  inner             `json:"deep"`
		List  []inner           `json:"list"`
		None  []inner           `json:"none"`
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for want, result := range map[string]any{
		"": nil, "texts: none\nlist: none\nnone: none": outer{},
		"a: x\nn: 1\ntext: \"a\\nb\"\nflag: true\nat: 2026-01-02T03:04:05Z\nuntil: 2026-01-02T03:04:05Z\ncode: 0\ntexts: p, q\npairs: k=v, l=w\ndeep: n: 2\nlist:\n- a: y\n- a: \"z; z\"; n: 3\nnone: none": &outer{
			inner: &inner{A: "x", N: 1, Skip: "s"}, Text: "a\nb", Flag: true, At: at, Until: &at, Code: new(int), Texts: []string{"p", "q"}, Pairs: map[string]string{"l": "w", "k": "v"},
			Deep: inner{N: 2}, List: []inner{{A: "y"}, {A: "z; z", N: 3}},
		},
	} {
		if got := Brief(result); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
