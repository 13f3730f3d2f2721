package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

var types = map[string]uint16{"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "SVCB": 64, "HTTPS": 65, "AXFR": 252, "ANY": 255}

// query sends a UDP query to a name server. The task's Ask has the form "NAME TYPE".
func query(t task) result {
	to, err := netip.ParseAddrPort(t.To)
	if err != nil {
		return result{Outcome: failed, Detail: err.Error()}
	}
	r := exchange(to, question(t))
	if r.Outcome != answered {
		return r
	}
	return interpret([]byte(r.Detail))
}

// question returns a query. The task's Ask has the form "NAME TYPE". An EDNS option contains the
// name of the task, so that a recipient can identify the task.
func question(t task) []byte {
	name, kind, _ := strings.Cut(t.Ask, " ")
	q := append(head(1, 0, 0, 1), labels(name)...)
	q = binary.BigEndian.AppendUint16(q, types[kind])
	q = append(q, 0, 1)
	option := append([]byte{0xfd, 0xe9, 0, byte(len(t.Name))}, t.Name...)
	q = append(q, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, byte(len(option)))
	return append(q, option...)
}

// head returns the header of a DNS message with the given counts.
func head(questions, answers, authorities, additional uint16) []byte {
	b := []byte{0x66, 0x66, 1, 0}
	for _, n := range []uint16{questions, answers, authorities, additional} {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	return b
}

func labels(name string) (b []byte) {
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0)
}

// interpret returns the response code and the addresses in a DNS answer.
func interpret(b []byte) result {
	if len(b) < 12 {
		return result{Outcome: silence, Detail: fmt.Sprintf("%d bytes", len(b))}
	}
	r := result{Outcome: reported, Detail: fmt.Sprintf("code %d", b[3]&0xf)}
	at := 12
	for range binary.BigEndian.Uint16(b[4:]) {
		at = afterName(b, at) + 4
	}
	for range binary.BigEndian.Uint16(b[6:]) {
		at = afterName(b, at)
		if at+10 > len(b) {
			break
		}
		kind, size := binary.BigEndian.Uint16(b[at:]), int(binary.BigEndian.Uint16(b[at+8:]))
		at += 10
		if at+size > len(b) {
			break
		}
		if a, ok := netip.AddrFromSlice(b[at : at+size]); ok && (kind == 1 || kind == 28) {
			r.Told = append(r.Told, a.String())
		}
		at += size
	}
	return r
}

func afterName(b []byte, at int) int {
	for at < len(b) && b[at] != 0 {
		if b[at] >= 0xc0 {
			return at + 2
		}
		at += int(b[at]) + 1
	}
	return at + 1
}

func simple(name string) []byte { return append(append(head(1, 0, 0, 0), labels(name)...), 0, 1, 0, 1) }

// malformed lists functions that return malformed queries, by name.
var malformed = map[string]func() []byte{
	"text":               func() []byte { return []byte("pyro-attack: this is no query but leaves all the same") },
	"empty":              func() []byte { return []byte{} },
	"half a head":        func() []byte { return head(1, 0, 0, 0)[:7] },
	"no question":        func() []byte { return head(0, 0, 0, 0) },
	"a lie of questions": func() []byte { return append(head(65535, 0, 0, 0), simple("malformed.test")[12:]...) },
	"a lie of answers":   func() []byte { return append(head(1, 65535, 65535, 65535), simple("malformed.test")[12:]...) },
	"two questions": func() []byte {
		q := simple("malformed.test")[12:]
		return append(append(head(2, 0, 0, 0), q...), q...)
	},
	"a loop":               func() []byte { return append(head(1, 0, 0, 0), 0xc0, 12, 0, 1, 0, 1) },
	"two that point":       func() []byte { return append(head(1, 0, 0, 0), 0xc0, 14, 0xc0, 12, 0, 1, 0, 1) },
	"a pointer forwards":   func() []byte { return append(head(1, 0, 0, 0), 0xc0, 200, 0, 1, 0, 1) },
	"a long label":         func() []byte { return append(append(head(1, 0, 0, 0), 200), make([]byte, 210)...) },
	"a name without end":   func() []byte { return append(head(1, 0, 0, 0), 60, 'p', 'y', 'r', 'o') },
	"a name of 1000 bytes": func() []byte { return simple(strings.Repeat("malformed.", 100) + "test") },
	"a zero in a name":     func() []byte { return simple("malformed\x00.test") },
	"a dot in a label": func() []byte {
		return append(append(head(1, 0, 0, 0), "\x0emalformed.test\x00"...), 0, 1, 0, 1)
	},
	"a space in a name": func() []byte { return simple("malformed 9.9.9.9.test") },
	"an answer":         func() []byte { q := simple("malformed.test"); q[2] |= 0x80; return q },
	"an update":         func() []byte { q := simple("malformed.test"); q[2] |= 5 << 3; return q },
	"a notification":    func() []byte { q := simple("malformed.test"); q[2] |= 4 << 3; return q },
	"chaos": func() []byte {
		return append(append(head(1, 0, 0, 0), labels("version.bind")...), 0, 16, 0, 3)
	},
	"a lie of EDNS": func() []byte {
		return append(append(head(1, 0, 0, 1), simple("malformed.test")[12:]...), 0, 0, 41, 255, 255, 0, 0, 0, 0, 255, 255)
	},
	"two of EDNS": func() []byte {
		opt := []byte{0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0}
		return append(append(append(head(1, 0, 0, 2), simple("malformed.test")[12:]...), opt...), opt...)
	},
	"60 KiB": func() []byte { return append(simple("malformed.test"), make([]byte, 60<<10)...) },
}

// rawQuery sends a malformed query over UDP.
func rawQuery(t task) result {
	to, err := netip.ParseAddrPort(t.To)
	make := malformed[t.Ask]
	if err != nil || make == nil {
		return result{Outcome: failed, Detail: "no such query"}
	}
	r := exchange(to, make())
	if r.Outcome == answered {
		return interpret([]byte(r.Detail))
	}
	return r
}

// rawQueryTCP sends a malformed query over TCP, or a query with a wrong length prefix.
func rawQueryTCP(t task) result {
	var content []byte
	switch t.Ask {
	case "a length and no more":
		content = []byte{255, 255}
	case "a length of 0":
		content = []byte{0, 0, 0, 0, 0, 0}
	case "a length too short":
		content = append([]byte{0, 9}, simple("malformed.test")...)
	case "64 KiB":
		content = append([]byte{255, 255}, append(simple("malformed.test"), make([]byte, 65535)...)...)
	case "HTTP":
		content = []byte("GET http://malformed.test/ HTTP/1.1\r\nHost: malformed.test\r\n\r\n")
	default:
		made := malformed[t.Ask]
		if made == nil {
			return result{Outcome: failed, Detail: "no such query"}
		}
		content = made()
		content = append(binary.BigEndian.AppendUint16(nil, uint16(len(content))), content...)
	}
	return overTCP(t, content)
}
