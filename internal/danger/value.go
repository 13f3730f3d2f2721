package danger

import (
	"slices"
	"strings"
)

// Words that are worked out are strings in which these bytes stand for text that isn't known. In a command itself they stand for nothing that
// anybody means, so it does no harm that they mean the same there.
const (
	anyEnv  = '\x01' // the value of a variable that the command does not set: any text, also none
	anyMade = '\x02' // what a command prints, or an expansion that is not worked out gives: any text, also none
	anyText = '\x03' // an unquoted *: any text
	anyByte = '\x04' // an unquoted ? or […]: any character
)

const (
	unknowns = "\x01\x02"         // whose text nobody knows
	wild     = "\x01\x02\x03\x04" // all of them
)

// Bounds of what one word may be.
const (
	maxValues = 24      // possible values
	maxWords  = 512     // words of one possible value
	maxText   = 1 << 16 // bytes
)

// words is one of the possible results of expanding a part of a word: the words it makes, and whether it sticks to its neighbours.
type words struct {
	list          []string
	before, after bool // a blank is at its beginning, at its end
}

func one(text string) words { return words{list: []string{text}} }

// then joins a and what comes after it.
func (a words) then(b words) words {
	switch {
	case len(a.list) == 0:
		b.before = b.before || a.before || a.after
		b.after = b.after || len(b.list) == 0 && b.before
		return b
	case len(b.list) == 0:
		a.after = a.after || b.before || b.after
		return a
	case a.after || b.before:
		return words{slices.Concat(a.list, b.list), a.before, b.after}
	}
	last := len(a.list) - 1
	list := slices.Concat(a.list[:last], []string{a.list[last] + b.list[0]}, b.list[1:])
	return words{list, a.before, b.after}
}

// matches tells whether a word with unknowns in it may be exactly the text.
func matches(word, text string) bool {
	if !strings.ContainsAny(word, wild) {
		return word == text
	}
	// The usual match of wildcards: on a mismatch go back to the last one that can take more.
	w, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case w < len(word) && (word[w] == anyText || word[w] == anyEnv || word[w] == anyMade):
			star, mark = w, t
			w++
		case w < len(word) && (word[w] == anyByte || word[w] == text[t]):
			w++
			t++
		case star >= 0:
			mark++
			w, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(word[w:], "\x01\x02\x03") == ""
}

// known is a word without what is unknown in it: what it is where that is empty.
func known(word string) string {
	if !strings.ContainsAny(word, unknowns) {
		return word
	}
	return strings.Map(func(r rune) rune {
		if r == anyEnv || r == anyMade {
			return -1
		}
		return r
	}, word)
}

// opaque tells that nothing of a word is known.
func opaque(word string) bool { return word != "" && strings.Trim(word, unknowns) == "" }

// add puts values into a set of at most maxValues, which becomes "anything" when it is full.
func add(set []string, values ...string) []string {
	for _, v := range values {
		if len(v) > maxText {
			v = string(anyMade)
		}
		switch {
		case slices.Contains(set, v):
		case len(set) >= maxValues:
			if !slices.Contains(set, string(anyMade)) {
				set[len(set)-1] = string(anyMade)
			}
		default:
			set = append(set, v)
		}
	}
	return set
}
