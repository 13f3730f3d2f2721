package dhcp

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	mac    = net.HardwareAddr{0x52, 0x54, 0, 1, 2, 3}
	server = Server{
		Client:   netip.MustParsePrefix("10.87.3.2/24"),
		MAC:      mac,
		Gateway:  netip.MustParseAddr("10.87.3.1"),
		DNS:      netip.MustParseAddr("10.87.3.3"),
		MTU:      1400,
		Hostname: "machine",
		Lease:    time.Hour,
	}
	ours, theirs = []byte{10, 87, 3, 2}, []byte{192, 168, 0, 9}
)

// message returns a request from the client with the given options. Each option is a code followed
// by its value.
func message(kind byte, options ...[]byte) []byte {
	b := make([]byte, atOptions)
	b[0], b[1], b[2], b[3] = bootRequest, ethernet, macSize, 1
	copy(b[4:], []byte{1, 2, 3, 4, 0, 7}) // transaction ID, seconds
	copy(b[atMAC:], mac)
	binary.BigEndian.PutUint32(b[atCookie:], cookie)
	b = option(b, optionKind, kind)
	for _, o := range options {
		b = append(append(b, o[0], byte(len(o)-1)), o[1:]...)
	}
	return append(b, optionEnd)
}

// with returns a copy of b with some bytes replaced, starting at the given offset.
func with(b []byte, at int, value ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], value)
	return b
}

func opt(code byte, value ...byte) []byte { return append([]byte{code}, value...) }

func TestAnswers(t *testing.T) {
	identity := []byte{10, 87, 3, 1}
	configuration := map[byte][]byte{
		optionServer: identity, optionMask: {255, 255, 255, 0}, optionRouter: identity, optionDNS: {10, 87, 3, 3},
		optionMTU: {5, 120}, optionHostname: []byte("machine"), optionBroadcast: {10, 87, 3, 255},
	}
	want := func(kind byte, leaseTime bool, more ...[]byte) map[byte][]byte {
		options := map[byte][]byte{optionServer: identity}
		if kind != nak {
			for code, value := range configuration {
				options[code] = value
			}
		}
		if leaseTime {
			options[optionLease] = []byte{0, 0, 14, 16}
		}
		for _, o := range append(more, opt(optionKind, kind)) {
			options[o[0]] = o[1:]
		}
		return options
	}
	for name, c := range map[string]struct {
		request   []byte
		options   map[byte][]byte
		client    []byte // ciaddr in the reply
		yours     []byte
		broadcast bool
	}{
		"discover":           {request: message(discover), options: want(offer, true), yours: ours},
		"discover broadcast": {request: with(message(discover), atFlags, 0x80), options: want(offer, true), yours: ours, broadcast: true},
		"discover another":   {request: message(discover, opt(optionAddress, theirs...)), options: want(offer, true), yours: ours},
		"discover with an identity": {
			request: message(discover, opt(optionID, 1, 2, 3)),
			options: want(offer, true, opt(optionID, 1, 2, 3)), yours: ours,
		},
		"select":           {request: message(ask, opt(optionServer, identity...), opt(optionAddress, ours...)), options: want(ack, true), yours: ours},
		"select another":   {request: message(ask, opt(optionServer, identity...), opt(optionAddress, theirs...)), options: want(nak, false), broadcast: true},
		"reboot":           {request: message(ask, opt(optionAddress, ours...)), options: want(ack, true), yours: ours},
		"reboot elsewhere": {request: message(ask, opt(optionAddress, theirs...)), options: want(nak, false), broadcast: true},
		"renew":            {request: with(message(ask), atClient, ours...), options: want(ack, true), yours: ours, client: ours},
		"renew broadcast":  {request: with(with(message(ask), atClient, ours...), atFlags, 0x80), options: want(ack, true), yours: ours, client: ours},
		"renew another":    {request: with(message(ask), atClient, theirs...), options: want(nak, false), broadcast: true},
		"ask for nothing":  {request: message(ask), options: want(nak, false), broadcast: true},
		"inform":           {request: with(message(inform), atClient, ours...), options: want(ack, false), client: ours},
		"inform elsewhere": {request: with(message(inform), atClient, theirs...), options: want(ack, false), client: theirs, broadcast: true},
		"padded, without an end": {
			request: append(bytes.TrimSuffix(message(discover), []byte{optionEnd}), 0, 0, 0),
			options: want(offer, true), yours: ours,
		},
		"an address in two parts": {
			request: message(ask, opt(optionAddress, ours[:1]...), opt(optionAddress, ours[1:]...)),
			options: want(ack, true), yours: ours,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, broadcast, ok := server.Answer(c.request)
			if !ok || broadcast != c.broadcast || len(got) < minReply {
				t.Fatalf("%v, broadcast %v, %d bytes", ok, broadcast, len(got))
			}
			options, _ := parseOptions(got[atOptions:])
			if d := cmp.Diff(c.options, options); d != "" {
				t.Errorf("options, -want +got:\n%s", d)
			}
			header := make([]byte, atOptions)
			copy(header, []byte{bootReply, ethernet, macSize, 0, 1, 2, 3, 4})
			copy(header[atFlags:], c.request[atFlags:atClient])
			copy(header[atClient:], c.client)
			copy(header[atYours:], c.yours)
			copy(header[atMAC:], mac)
			binary.BigEndian.PutUint32(header[atCookie:], cookie)
			if d := cmp.Diff(header, got[:atOptions]); d != "" {
				t.Errorf("header, -want +got:\n%s", d)
			}
		})
	}
}

func TestIgnoredRequests(t *testing.T) {
	fine := message(discover)
	for name, request := range map[string][]byte{
		"empty":                 nil,
		"short":                 fine[:atOptions-1],
		"without options":       fine[:atOptions],
		"long":                  append(bytes.Clone(fine), make([]byte, maxRequest)...),
		"a reply":               with(fine, 0, bootReply),
		"no Ethernet":           with(fine, 1, 6),
		"long hardware":         with(fine, 2, 16),
		"another client":        with(fine, atMAC, 1),
		"relayed":               with(fine, atRelay, 10, 0, 0, 1),
		"BOOTP":                 with(fine, atCookie, 0),
		"no kind":               with(fine, atOptions, optionLease),
		"a long kind":           message(discover, opt(optionKind, offer)),
		"a cut option":          with(fine, atOptions+1, 200),
		"a short address":       message(ask, opt(optionAddress, 10)),
		"an empty server":       message(ask, opt(optionServer)),
		"for another server":    message(ask, opt(optionServer, theirs...), opt(optionAddress, ours...)),
		"decline":               message(4, opt(optionAddress, ours...)),
		"release":               with(message(7), atClient, ours...),
		"an offer":              message(offer),
		"an unknown kind":       message(77),
		"a code at the end":     append(bytes.TrimSuffix(fine, []byte{optionEnd}), optionLease),
		"no kind before an end": append(append(bytes.Clone(fine[:atOptions]), optionEnd), fine[atOptions:]...),
	} {
		if _, _, ok := server.Answer(request); ok {
			t.Errorf("%s is answered", name)
		}
	}
}

// TestBareServer checks a server that has only the required configuration, in a /32 network.
func TestBareServer(t *testing.T) {
	bare := Server{Client: netip.MustParsePrefix("10.0.0.2/32"), MAC: mac, Gateway: netip.MustParseAddr("10.0.0.1"), Lease: 200 * 365 * 24 * time.Hour}
	got, _, ok := bare.Answer(message(discover))
	if !ok {
		t.Fatal("not answered")
	}
	options, _ := parseOptions(got[atOptions:])
	want := map[byte][]byte{
		optionKind: {offer}, optionServer: {10, 0, 0, 1}, optionRouter: {10, 0, 0, 1}, optionMask: {255, 255, 255, 255}, optionLease: {255, 255, 255, 255},
	}
	if d := cmp.Diff(want, options); d != "" {
		t.Errorf("options, -want +got:\n%s", d)
	}
	bare.Hostname = strings.Repeat("x", 300)
	got, _, _ = bare.Answer(message(discover, opt(optionID, make([]byte, 200)...), opt(optionID, make([]byte, 100)...)))
	options, ok = parseOptions(got[atOptions:])
	if !ok || len(options[optionHostname]) != 255 || options[optionID] != nil {
		t.Errorf("a host name of %d bytes, an identity of %d", len(options[optionHostname]), len(options[optionID]))
	}
}

// TestChangedRequests changes random bytes in requests. All replies must still be addressed to the
// client.
func TestChangedRequests(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seeds := [][]byte{message(discover, opt(optionID, 1, 2)), message(ask, opt(optionAddress, ours...)), with(message(inform), atClient, ours...)}
	for range 50000 {
		request := bytes.Clone(seeds[random.IntN(len(seeds))])
		for range 1 + random.IntN(4) {
			request[random.IntN(len(request))] = byte(random.Uint32())
		}
		check(t, request[:len(request)-random.IntN(3)])
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(message(discover, opt(55, 1, 3, 6), opt(57, 5, 220), opt(optionID, 1, 2)))
	f.Add(message(ask, opt(optionServer, 10, 87, 3, 1), opt(optionAddress, ours...)))
	f.Add(with(message(ask), atClient, ours...))
	f.Add(with(message(inform), atClient, theirs...))
	f.Add(message(discover)[:atOptions+1])
	f.Fuzz(func(t *testing.T, request []byte) { check(t, request) })
}

// check verifies the properties that every reply must have.
func check(t *testing.T, request []byte) {
	t.Helper()
	before := bytes.Clone(request)
	got, _, ok := server.Answer(request)
	if !bytes.Equal(before, request) {
		t.Fatal("the request was changed")
	}
	if !ok {
		return
	}
	if len(got) < minReply || len(got) > 1024 || got[0] != bootReply || !bytes.Equal(got[4:8], request[4:8]) || !bytes.Equal(got[atMAC:atMAC+macSize], mac) {
		t.Fatalf("a wrong header: %x", got)
	}
	if yours := got[atYours : atYours+4]; !bytes.Equal(yours, ours) && !bytes.Equal(yours, make([]byte, 4)) {
		t.Fatalf("the address %v", yours)
	}
	options, ok := parseOptions(got[atOptions:])
	if !ok || len(options[optionKind]) != 1 || len(options[optionServer]) != 4 {
		t.Fatalf("wrong options: %x", got[atOptions:])
	}
}
