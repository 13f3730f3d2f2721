package dns

import (
	"math"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	minUDP = 512  // what every client takes
	maxUDP = 1232 // what is never fragmented

	badVersion dnsmessage.RCode = 16 // BADVERS, which only EDNS has the bits for
)

// query is what matters of one.
type query struct {
	header    dnsmessage.Header
	questions []dnsmessage.Question // one, or none where it was not understood
	edns      bool
	size      int // of a reply over UDP, in bytes
}

// parse reads a query. It is not ok where nobody would wait for a reply; otherwise the code tells what is wrong with it.
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

// parseAdditionals looks for EDNS (RFC 6891). Its options are of no concern.
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

// reply packs the records that were found for a query, if they fit.
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
		Questions: q.questions, // in the case it was asked in, by which clients know a reply of their own
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
	if err != nil || stream { // there is no other way to ask
		m.RCode = dnsmessage.RCodeServerFailure
	} else {
		m.Truncated = true
	}
	b, _ = m.Pack() // nothing but a question that came in a message
	return b
}
