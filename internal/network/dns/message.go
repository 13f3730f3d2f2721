package dns

import (
	"math"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	minUDP = 512  // every client accepts this size
	maxUDP = 1232 // packets of this size are not fragmented

	badVersion dnsmessage.RCode = 16 // BADVERS does not fit in 4 bits: EDNS has the upper bits
)

// query contains the parts of a query that the server uses.
type query struct {
	header    dnsmessage.Header
	questions []dnsmessage.Question // one question, or none if the query is malformed
	edns      bool
	size      int // maximum size of a UDP reply, in bytes
}

// parse reads a query. ok is false if the message must not get a reply. code describes any other
// error.
func parse(b []byte) (q query, code dnsmessage.RCode, ok bool) {
	var p dnsmessage.Parser
	header, err := p.Start(b)
	if err != nil || header.Response {
		return q, 0, false
	}
	q = query{header: header, size: minUDP}
	if header.OpCode != 0 {
		return q, dnsmessage.RCodeNotImplemented, true
	}
	question, err := p.Question()
	if err != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone {
		return q, dnsmessage.RCodeFormatError, true
	}
	q.questions = []dnsmessage.Question{question}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	return q, q.parseAdditionals(&p), true
}

// parseAdditionals reads the EDNS version and size (RFC 6891) and ignores the EDNS options.
func (q *query) parseAdditionals(p *dnsmessage.Parser) dnsmessage.RCode {
	version := byte(0)
	for {
		h, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			break
		}
		if err != nil || h.Type == dnsmessage.TypeOPT && (q.edns || h.Name.String() != ".") || p.SkipAdditional() != nil {
			return dnsmessage.RCodeFormatError
		}
		if h.Type == dnsmessage.TypeOPT {
			q.edns, q.size, version = true, min(max(int(h.Class), minUDP), maxUDP), byte(h.TTL>>16)
		}
	}
	if version != 0 {
		return badVersion
	}
	return dnsmessage.RCodeSuccess
}

// reply encodes the reply to a query. If the records don't fit, the reply contains no records.
func (q query) reply(found []dnsmessage.ResourceBody, code dnsmessage.RCode, stream bool) []byte {
	m := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID:                 q.header.ID,
			Response:           true,
			OpCode:             q.header.OpCode,
			RecursionDesired:   q.header.RecursionDesired,
			RecursionAvailable: true,
			RCode:              code & 0xf,
		},
		Questions: q.questions, // the question keeps its upper and lower case, because some clients compare it
	}
	if q.edns {
		var h dnsmessage.ResourceHeader
		h.SetEDNS0(maxUDP, code, false)
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	for _, body := range found {
		h := dnsmessage.ResourceHeader{Name: q.questions[0].Name, Class: dnsmessage.ClassINET, TTL: TTL}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: body})
	}
	size := q.size
	if stream {
		size = math.MaxUint16
	}
	b, err := m.Pack()
	if err == nil && len(b) <= size {
		return b
	}
	m.Answers = nil
	if err != nil || stream { // the client can't retry with a higher limit
		m.RCode = dnsmessage.RCodeServerFailure
	} else {
		m.Truncated = true
	}
	b, _ = m.Pack() // can't fail: the message contains only the question, which came from a message
	return b
}
