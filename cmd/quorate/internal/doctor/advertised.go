package doctor

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/endpoint"
)

// advertisedURL is a URL at which a member says that clients reach it.
type advertisedURL struct {
	member *pb.Member
	url    string
	clear  bool  // without TLS
	known  bool  // it is one of the endpoints
	err    error // of connecting to it
}

// examineAdvertised connects to the advertised URLs that are no endpoints: a client that syncs its endpoints uses them.
func examineAdvertised(ctx context.Context, cfg Config, visits []*visit) []advertisedURL {
	var out []advertisedURL
	var seen []string
	for _, v := range visits {
		for _, m := range v.members.GetMembers() {
			for _, url := range m.ClientURLs {
				if key := m.Name + url; len(out) < maxAdvertised && !slices.Contains(seen, key) {
					seen = append(seen, key)
					out = append(out, advertisedURL{member: m, url: url})
				}
			}
		}
	}
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i].examine(ctx, cfg.Timeout, visits) })
	}
	wg.Wait()
	return out
}

func (a *advertisedURL) examine(ctx context.Context, timeout time.Duration, visits []*visit) {
	ep, err := endpoint.Parse(a.url)
	if err != nil {
		a.err = err
		return
	}
	a.clear = ep.Security == endpoint.Plaintext
	a.known = slices.ContainsFunc(visits, func(v *visit) bool {
		return v.endpoint.Address == ep.Address
	})
	if a.known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	network, address := endpoint.DialTarget(ep.Address)
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if a.err = err; err == nil {
		_ = conn.Close() // it was to be made only
	}
}

// advertised reports problems of advertised URLs, and members that are no endpoints.
func (d *diagnosis) advertised(urls []advertisedURL) {
	seen := map[uint64]bool{}
	for _, v := range d.visits {
		for _, m := range v.members.GetMembers() {
			if seen[m.ID] || v.web.proxy {
				continue
			}
			seen[m.ID] = true
			if m.Name == "" {
				d.memberFinding(m, Warning, NotStarted, "etcdctl member list; start it, or etcdctl member remove", "the member was added, and has never started: it counts for the majority, and helps nobody")
			}
		}
	}
	for _, a := range urls {
		switch {
		case a.err != nil:
			d.memberFinding(a.member, Warning, AdvertisedUnreachable, "on the member: set --advertise-client-urls to what clients can reach",
				"it advertises "+a.url+", which cannot be connected to from here: "+a.err.Error()+hint(a.url))
		case a.clear && d.secured():
			d.memberFinding(a.member, Warning, AdvertisedClear, "on the member: set --advertise-client-urls to an https URL",
				"it advertises "+a.url+", without TLS: a client with TLS does not use it, and others take it")
		}
	}
	d.missing(urls)
}

// hint explains loopback and wildcard addresses, which mean another machine to each client.
func hint(url string) string {
	for _, local := range []string{"//127.", "//localhost", "//[::1]", "//0.0.0.0"} {
		if strings.Contains(url, local) {
			return "; that address is this machine"
		}
	}
	return ""
}

// missing notes voting members that no endpoint reaches although the client could.
func (d *diagnosis) missing(urls []advertisedURL) {
	reached := map[uint64]bool{}
	for _, v := range d.visits {
		if v.failed != stepNone || v.web.proxy {
			return // it may be the one
		}
		reached[v.status.Header.GetMemberId()] = true
	}
	for _, a := range urls {
		if !reached[a.member.ID] && !a.known && !a.member.IsLearner {
			reached[a.member.ID] = true
			d.memberFinding(a.member, Note, NotAnEndpoint, "", "it is a member, and none of --endpoints: a client does not use it, unless it syncs its endpoints")
		}
	}
}

func (d *diagnosis) secured() bool {
	return slices.ContainsFunc(d.visits, func(v *visit) bool { return v.tls != nil })
}

func (d *diagnosis) memberFinding(m *pb.Member, s Severity, code Code, run, cause string) {
	d.findings = append(d.findings, Finding{Severity: s, Code: code, Member: nameOf(m), Cause: cause, Run: run})
}
