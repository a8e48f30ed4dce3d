package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/endpoint"
)

// advertisedURL is a URL at which a member says that clients reach it.
type advertisedURL struct {
	member *pb.Member
	url    string
	clear  bool   // without TLS, where the client has it
	err    error  // it is malformed
	visit  *visit // nil if it is one of the endpoints, or nothing may be sent to it
}

// advertisedURLs returns the URLs that the members advertise. Those that are no endpoints get a visit: a client that
// syncs its endpoints uses them. With cfg.Only it returns none: a problem of another member is not the cause.
func advertisedURLs(cfg Config, visits []*visit) []advertisedURL {
	var out []advertisedURL
	seen := map[string]bool{}
	for _, v := range visits {
		for _, m := range v.members.GetMembers() {
			for _, url := range m.ClientURLs {
				if key := m.Name + url; cfg.Only == "" && len(out) < maxAdvertised && !seen[key] {
					seen[key] = true
					out = append(out, newAdvertisedURL(cfg, visits, m, url))
				}
			}
		}
	}
	return out
}

func newAdvertisedURL(cfg Config, visits []*visit, m *pb.Member, url string) advertisedURL {
	a := advertisedURL{member: m, url: url}
	ep, err := endpoint.Parse(url)
	if err != nil {
		a.err = err
		return a
	}
	a.clear = ep.Security == endpoint.Plaintext && slices.ContainsFunc(visits, func(v *visit) bool { return v.tls != nil })
	if !a.clear && !slices.ContainsFunc(visits, func(v *visit) bool { return v.endpoint.Address == ep.Address }) {
		a.visit = newVisit(cfg, ep)
		a.visit.member = m
	}
	return a
}

// advertised reports problems of advertised URLs, and members that are no endpoints.
func (d *diagnosis) advertised(urls []advertisedURL) {
	d.notStarted()
	for _, a := range urls {
		switch {
		case a.err != nil:
			d.memberFinding(a.member, Warning, "advertised-unreachable", setAdvertised, "it advertises "+a.url+", which is no URL of an endpoint: "+a.err.Error())
		case a.clear:
			d.memberFinding(a.member, Warning, "advertised-clear", "on the member: set --advertise-client-urls to an https URL",
				"it advertises "+a.url+", without TLS: a client of Quorate that has TLS does not use it, and other clients send to it in plaintext")
		case a.visit == nil:
		case a.visit.status != nil && a.visit.failed == stepNone:
			if id := a.visit.status.Header.GetMemberId(); id != 0 && id != a.member.ID {
				d.memberFinding(a.member, Note, "advertised-other", "", fmt.Sprintf("it advertises %s, where member %s answers", a.url, d.nameOf(id)))
			}
		case d.reached(a.member.ID) || isLocal(a.url) && !d.allLocal():
			cause := "it advertises " + a.url + ", and cannot be reached there from here: " + message(a.visit.err)
			if isLocal(a.url) {
				cause += "; that address is this machine"
			}
			d.memberFinding(a.member, Warning, "advertised-unreachable", setAdvertised, cause)
		default:
			d.failure(a.visit)
		}
	}
	d.missing(urls)
	d.lossesLeft()
}

const setAdvertised = "on the member: set --advertise-client-urls to what clients can reach"

// list returns the members that a member names, nil if none did.
func (d *diagnosis) list() []*pb.Member {
	for _, v := range d.visits {
		if list := v.members.GetMembers(); len(list) > 0 && !v.web.proxy {
			return list
		}
	}
	return nil
}

func (d *diagnosis) notStarted() {
	for _, m := range d.list() {
		if m.Name == "" {
			d.memberFinding(m, Warning, "not-started", "etcdctl member list; start it, or etcdctl member remove",
				"the member was added and has never started: it counts for the majority, and serves nothing")
		}
	}
}

// reached reports whether an endpoint leads to the member, and the member answers there.
func (d *diagnosis) reached(id uint64) bool {
	return slices.ContainsFunc(d.members(), func(v *visit) bool { return v.member == nil && v.status.Header.MemberId == id })
}

func (d *diagnosis) nameOf(id uint64) string {
	return cmp.Or(d.names[id], fmt.Sprintf("%x", id))
}

// isLocal reports whether a URL has a loopback or wildcard address, which means another machine to each client.
func isLocal(url string) bool {
	return slices.ContainsFunc([]string{"//127.", "//localhost", "//[::1]", "//0.0.0.0", "//[::]"}, func(local string) bool { return strings.Contains(url, local) })
}

// allLocal reports whether the endpoints are on this machine.
func (d *diagnosis) allLocal() bool {
	return !slices.ContainsFunc(d.visits, func(v *visit) bool { return v.member == nil && !isLocal("//"+v.endpoint.Address) })
}

// missing notes voting members that answer and that no endpoint names.
func (d *diagnosis) missing(urls []advertisedURL) {
	if d.cfg.Cluster || slices.ContainsFunc(d.visits, func(v *visit) bool { return v.member == nil && (v.failed != stepNone || v.web.proxy) }) {
		return // the endpoint that failed may be that member
	}
	seen := map[uint64]bool{}
	for _, a := range urls {
		works := a.clear || a.visit != nil && a.visit.failed == stepNone
		if works && !seen[a.member.ID] && !d.reached(a.member.ID) && !a.member.IsLearner {
			seen[a.member.ID] = true
			d.memberFinding(a.member, Note, "not-an-endpoint", "", "--endpoints does not name this member: a client uses it only after Sync")
		}
	}
}

// lossesLeft counts the members that serve, and warns if the loss of one more stops writes.
func (d *diagnosis) lossesLeft() {
	voters, serving, known := 0, 0, true
	for _, m := range d.list() {
		if !m.IsLearner {
			voters++
			lost, asked := d.isLost(m)
			if !lost {
				serving++
			}
			known = known && asked
		}
	}
	switch left := serving - (voters/2 + 1); {
	case voters == 0 || left < 0:
	case left == 0 && serving < voters:
		d.clusterFinding(Warning, "redundancy", "repair what the other findings name", "at most %d of %d voting members serve: one more loss stops all writes", serving, voters)
	case known:
		d.redundancy = fmt.Sprintf("%d of %d voting members serve; %d more can be lost", serving, voters, left)
	}
}

// isLost reports whether a member was asked and does not serve, and whether it was asked: another one may answer at its URLs.
func (d *diagnosis) isLost(m *pb.Member) (lost, asked bool) {
	asked = m.Name == ""
	for _, v := range d.visits {
		switch {
		case v.status != nil && v.failed == stepNone:
			if v.status.Header.GetMemberId() == m.ID {
				return v.status.Leader == 0, true
			}
		case v.member != nil:
			asked = asked || v.member.ID == m.ID
		default:
			asked = asked || v.isAdvertisedBy(m)
		}
	}
	return asked, asked
}

// memberFinding adds a finding about a member.
func (d *diagnosis) memberFinding(m *pb.Member, s Severity, code, run, cause string) {
	d.findings = append(d.findings, Finding{Severity: s, Code: code, Member: nameOf(m), Cause: cause, Run: run})
}
