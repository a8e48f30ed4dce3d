package dns

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// unknownTTL is longer than any TTL.
const unknownTTL = time.Duration(math.MaxInt64)

// seen is what package net does not return of the messages of a lookup: how long the answers are
// valid, the addresses sent with SRV records, and which queries of the search domains were
// answered.
type seen struct {
	ttl      time.Duration // the shortest of all answers with records, unknownTTL without any
	negative time.Duration // the shortest of all answers without records, unknownTTL without any
	// queries has the reason why each query was not answered, "" if it was.
	queries map[dnsmessage.Question]string
	// found is the name that has records, "" if there are none.
	found string
	// glue has the addresses that were sent with SRV records, by name.
	glue map[string][]netip.Addr
}

// validity returns the shortest TTL of the answers with records, or of the empty ones if there are
// no others.
func (s *seen) validity() time.Duration {
	if s.found == "" {
		return s.negative
	}
	return s.ttl
}

// incomplete returns the reason if a query was not answered: one for name, or any if name is empty.
// Package net continues with the next search domain then, and may return that the name does not
// exist, or the records of another name.
func (s *seen) incomplete(name string) error {
	for _, q := range slices.SortedFunc(maps.Keys(s.queries), func(a, b dnsmessage.Question) int {
		return cmp.Or(cmp.Compare(a.Name.String(), b.Name.String()), cmp.Compare(a.Type, b.Type))
	}) {
		if reason := s.queries[q]; reason != "" && (name == "" || name == q.Name.String()) {
			return &net.DNSError{Err: reason, Name: q.Name.String(), IsTemporary: true}
		}
	}
	return nil
}

// hasNoRecords reports whether a name was queried and has no records.
func (s *seen) hasNoRecords(name string) bool {
	for q, reason := range s.queries {
		if q.Name.String() == name && reason == "" {
			return s.found != name
		}
	}
	return false
}

// failedFamily returns the family whose lookup failed while the other one has addresses.
func (s *seen) failedFamily() Family {
	for q, reason := range s.queries {
		switch {
		case reason == "" || q.Name.String() != s.found:
		case q.Type == dnsmessage.TypeA:
			return FamilyIPv4
		case q.Type == dnsmessage.TypeAAAA:
			return FamilyIPv6
		}
	}
	return FamilyAuto
}

// recorder reads the messages of one lookup.
type recorder struct {
	mu    sync.Mutex
	ended bool
	seen
}

func newRecorder() *recorder {
	return &recorder{seen: seen{
		ttl: unknownTTL, negative: unknownTTL,
		queries: map[dnsmessage.Question]string{}, glue: map[string][]netip.Addr{},
	}}
}

func (r *recorder) end() *seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return &r.seen
}

type query struct {
	dnsmessage.Question // in lower case
	id                  uint16
}

func parseQuery(p *dnsmessage.Parser, message []byte) (query, dnsmessage.Header, error) {
	h, err := p.Start(message)
	if err != nil {
		return query{}, h, err
	}
	q, err := p.Question()
	if err != nil {
		return query{}, h, err
	}
	q.Name, err = dnsmessage.NewName(strings.ToLower(q.Name.String()))
	return query{q, h.ID}, h, err
}

// sending records a query that is sent next.
func (r *recorder) sending(message []byte) query {
	var p dnsmessage.Parser
	q, _, err := parseQuery(&p, message)
	if err != nil {
		return query{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.queries[q.Question]; !ok && !r.ended {
		r.queries[q.Question] = "no answer"
	}
	return q
}

// observe records the reply to a query. It returns false for any other message, which any host may
// have sent and package net ignores as well.
func (r *recorder) observe(asked query, reply []byte) bool {
	var p dnsmessage.Parser
	q, h, err := parseQuery(&p, reply)
	if err != nil || !h.Response || q != asked || p.SkipAllQuestions() != nil {
		return false
	}
	if h.Truncated {
		return true // package net repeats the query over TCP
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return true
	}
	// A section that cannot be parsed is empty. Package net refuses the message if it needs it.
	answers, _ := p.AllAnswers()
	authorities, _ := p.AllAuthorities()
	additionals, _ := p.AllAdditionals()
	switch {
	case h.RCode != dnsmessage.RCodeSuccess && h.RCode != dnsmessage.RCodeNameError:
		r.failedLocked(q.Question, rcode(h.RCode))
		return true
	case h.RCode == dnsmessage.RCodeSuccess && has(answers, q.Type):
		r.found = q.Name.String()
		r.recordsLocked(q.Type, answers, additionals)
	case h.RCode == dnsmessage.RCodeSuccess && !h.Authoritative && !h.RecursionAvailable && len(answers) == 0 &&
		(len(additionals) == 0 || has(authorities, dnsmessage.TypeNS) && !has(authorities, dnsmessage.TypeSOA)):
		r.failedLocked(q.Question, "referral") // no statement about the name
		return true
	default:
		r.noRecordsLocked(authorities)
	}
	r.queries[q.Question] = ""
	return true
}

// has reports whether there are records of a type, and not only aliases without any.
func has(answers []dnsmessage.Resource, of dnsmessage.Type) bool {
	return slices.ContainsFunc(answers, func(a dnsmessage.Resource) bool { return a.Header.Type == of })
}

// failedLocked records a reply that is no answer.
func (r *recorder) failedLocked(q dnsmessage.Question, reason string) {
	if r.queries[q] != "" {
		r.queries[q] = reason
	}
}

// rcode returns the name of a code in DNS.
func rcode(c dnsmessage.RCode) string {
	switch c {
	case dnsmessage.RCodeServerFailure:
		return "SERVFAIL"
	case dnsmessage.RCodeRefused:
		return "REFUSED"
	default:
		return fmt.Sprintf("RCODE %d", c)
	}
}

// recordsLocked records how long answers are valid, and the addresses that were sent with SRV records.
func (r *recorder) recordsLocked(of dnsmessage.Type, answers, additionals []dnsmessage.Resource) {
	for _, a := range answers {
		r.ttl = min(r.ttl, seconds(a.Header.TTL))
	}
	if of != dnsmessage.TypeSRV {
		return
	}
	for _, a := range additionals {
		var address netip.Addr
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			address = netip.AddrFrom4(body.A)
		case *dnsmessage.AAAAResource:
			address = netip.AddrFrom16(body.AAAA)
		default:
			continue
		}
		name := strings.ToLower(a.Header.Name.String())
		r.glue[name] = append(r.glue[name], address)
		r.ttl = min(r.ttl, seconds(a.Header.TTL))
	}
}

// noRecordsLocked records how long an empty answer is valid (RFC 2308).
func (r *recorder) noRecordsLocked(authorities []dnsmessage.Resource) {
	for _, a := range authorities {
		if soa, ok := a.Body.(*dnsmessage.SOAResource); ok {
			r.negative = min(r.negative, seconds(min(a.Header.TTL, soa.MinTTL)))
		}
	}
}

func seconds(ttl uint32) time.Duration { return time.Duration(ttl) * time.Second }
