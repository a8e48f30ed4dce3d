package dns

import (
	"math"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// tap learns from the messages of one lookup what package net does not tell: how long the
// answers are valid, what came along with SRV records, and what kind of failure there was.
type tap struct {
	mu  sync.Mutex
	ttl time.Duration // the shortest of all answers, unknownTTL without any
	// refused has the questions that a server would not answer.
	refused map[dnsmessage.Question]bool
	// positive has the types of address records that came.
	positive map[dnsmessage.Type]bool
	// glue has the addresses that came along with SRV records, by name.
	glue map[string][]netip.Addr
}

// unknownTTL is longer than any.
const unknownTTL = time.Duration(math.MaxInt64)

func newTap() *tap {
	return &tap{
		ttl:      unknownTTL,
		refused:  map[dnsmessage.Question]bool{},
		positive: map[dnsmessage.Type]bool{},
		glue:     map[string][]netip.Addr{},
	}
}

// validity returns the shortest TTL of all answers. A nil tap knows nothing.
func (t *tap) validity() time.Duration {
	if t == nil {
		return unknownTTL
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ttl
}

// wasRefused reports whether a server neither answered nor failed, REFUSED for instance,
// and no other one answered. Package net goes on to the next search domain then, and may
// end up with a name that does not exist.
func (t *tap) wasRefused() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.refused) > 0
}

// onlyFamily returns the family of which there were addresses, if there were none of the other.
func (t *tap) onlyFamily() (Family, bool) {
	if t == nil {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch v4, v6 := t.positive[dnsmessage.TypeA], t.positive[dnsmessage.TypeAAAA]; {
	case v4 && !v6:
		return FamilyIPv4, true
	case v6 && !v4:
		return FamilyIPv6, true
	}
	return 0, false
}

// gluedTo returns the addresses of name that came along with SRV records.
func (t *tap) gluedTo(name string) []netip.Addr {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.glue[strings.ToLower(name)]
}

// observe learns from a reply to a query. What is not the reply to it is ignored, as package
// net does: anybody may have sent it.
func (t *tap) observe(query, reply []byte) {
	asked, err := parseQuery(query)
	if err != nil {
		return
	}
	var p dnsmessage.Parser
	h, err := p.Start(reply)
	if err != nil || !h.Response || h.ID != asked.id {
		return
	}
	q, err := p.Question()
	if err != nil || q.Type != asked.Type || q.Class != asked.Class || !strings.EqualFold(q.Name.String(), asked.Name.String()) {
		return
	}
	if p.SkipAllQuestions() != nil || h.Truncated {
		return // a truncated reply is asked for again, over TCP
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch h.RCode {
	case dnsmessage.RCodeSuccess:
		delete(t.refused, asked.Question)
		t.records(&p, asked.Type)
	case dnsmessage.RCodeNameError:
		delete(t.refused, asked.Question)
	default:
		t.refused[asked.Question] = true
	}
}

type query struct {
	dnsmessage.Question
	id uint16
}

func parseQuery(b []byte) (query, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil {
		return query{}, err
	}
	q, err := p.Question()
	return query{q, h.ID}, err
}

// records reads the answers, and what came along with SRV records.
func (t *tap) records(p *dnsmessage.Parser, kind dnsmessage.Type) {
	ttl, found := unknownTTL, false
	for {
		h, err := p.AnswerHeader()
		if err != nil {
			break
		}
		ttl = min(ttl, time.Duration(h.TTL)*time.Second)
		found = found || h.Type == kind
		if p.SkipAnswer() != nil {
			break
		}
	}
	if !found {
		return // nothing, or an alias that leads to nothing
	}
	t.positive[kind] = true
	t.ttl = min(t.ttl, ttl)
	if kind == dnsmessage.TypeSRV && p.SkipAllAuthorities() == nil {
		t.additionals(p)
	}
}

func (t *tap) additionals(p *dnsmessage.Parser) {
	for {
		h, err := p.AdditionalHeader()
		if err != nil {
			return
		}
		name := strings.ToLower(h.Name.String())
		switch h.Type {
		case dnsmessage.TypeA:
			r, err := p.AResource()
			if err != nil {
				return
			}
			t.glue[name] = append(t.glue[name], netip.AddrFrom4(r.A))
		case dnsmessage.TypeAAAA:
			r, err := p.AAAAResource()
			if err != nil {
				return
			}
			t.glue[name] = append(t.glue[name], netip.AddrFrom16(r.AAAA))
		default:
			if p.SkipAdditional() != nil {
				return
			}
			continue
		}
		t.ttl = min(t.ttl, time.Duration(h.TTL)*time.Second)
	}
}
