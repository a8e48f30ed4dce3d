package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/keepalive"
)

// Bounds of findings.
const (
	// skewBound is what etcd itself warns at, between members.
	skewBound = time.Second
	// lagBound is a fifth of what makes etcd refuse writes (5,000 entries).
	lagBound = 1000
	// quotaBound is the share of the quota that is a warning.
	quotaBound = 0.8
	// fragmentBound is the free part of a database that is worth a note.
	fragmentBound = 256 << 20
	// slowBound and slowRatio are those of a client: see health.Late.
	slowBound = 100 * time.Millisecond
	slowRatio = 5
)

// diagnosis derives findings from visits.
type diagnosis struct {
	cfg      Config
	visits   []*visit
	names    map[uint64]string // of members
	findings []Finding
	// redundancy says how many members can be lost; empty if it is not known.
	redundancy string
}

// diagnose returns the findings of what the endpoints showed. It has no I/O.
func diagnose(cfg Config, visits []*visit, advertised []advertisedURL) *diagnosis {
	d := &diagnosis{cfg: cfg, visits: visits, names: map[uint64]string{}, findings: []Finding{}}
	for _, v := range visits {
		for _, m := range v.members.GetMembers() {
			d.names[m.ID] = nameOf(m)
		}
	}
	for _, v := range visits {
		if v.failed != stepNone && v.member == nil { // of others: see advertised
			d.failure(v)
		}
		d.expiry(v)
	}
	d.login()
	d.cluster()
	d.leader()
	d.roles()
	for _, v := range d.served() {
		d.state(v)
	}
	d.versions()
	d.kinds()
	d.clocks()
	d.slowness()
	d.hashes()
	d.advertised(advertised)
	d.keepalive()
	slices.SortStableFunc(d.findings, func(a, b Finding) int { // those of the cluster, which explain others, first
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)), strings.Compare(about(a), about(b)))
	})
	return d
}

var severities = []Severity{Error, Warning, Note}

// memberOf returns the name of the member behind an endpoint, if it is known: by what it answers, or by the URLs that members advertise.
func (d *diagnosis) memberOf(v *visit) string {
	if v.status != nil {
		return d.names[v.status.Header.GetMemberId()]
	}
	if v.member != nil {
		return nameOf(v.member)
	}
	for _, m := range d.list() {
		if v.isAdvertisedBy(m) {
			return nameOf(m)
		}
	}
	return ""
}

// isAdvertisedBy reports whether a member advertises the URL of a visit.
func (v *visit) isAdvertisedBy(m *pb.Member) bool {
	return slices.ContainsFunc(m.ClientURLs, func(url string) bool {
		ep, err := endpoint.Parse(url)
		return err == nil && ep.Address == v.endpoint.Address
	})
}

// served returns the visits that have a status.
func (d *diagnosis) served() []*visit {
	return slices.DeleteFunc(slices.Clone(d.visits), func(v *visit) bool { return v.failed != stepNone || v.status == nil })
}

// members returns the visits of members of an etcd cluster that have a status.
func (d *diagnosis) members() []*visit {
	return slices.DeleteFunc(d.served(), func(v *visit) bool { return v.status.Header.GetMemberId() == 0 })
}

// clusters returns the endpoints by cluster.
func (d *diagnosis) clusters() map[uint64][]string {
	of := map[uint64][]string{}
	for _, v := range d.members() {
		id := v.status.Header.ClusterId
		of[id] = append(of[id], v.endpoint.String())
	}
	return of
}

// cluster finds endpoints of different clusters.
func (d *diagnosis) cluster() {
	of := d.clusters()
	if len(of) < 2 {
		return
	}
	var parts []string
	for id, endpoints := range of {
		parts = append(parts, fmt.Sprintf("%x (%s)", id, strings.Join(endpoints, ", ")))
	}
	slices.Sort(parts)
	d.clusterFinding(Error, "other-cluster", "etcdctl endpoint status --write-out=json", "the endpoints belong to different clusters: %s", strings.Join(parts, " and "))
}

// leader compares the leaders that the members report.
func (d *diagnosis) leader() {
	members := d.members()
	var term uint64
	with, without := 0, 0
	for _, v := range members {
		term = max(term, v.status.RaftTerm)
		if v.status.Leader == 0 {
			without++
		} else if !v.status.IsLearner { // a learner takes part in no election, and keeps the last leader
			with++
		}
	}
	if without > 0 && with == 0 {
		d.clusterFinding(Error, "no-leader", "etcdctl endpoint status --write-out=table; on the members: journalctl -u etcd",
			"the cluster has no leader: nothing is written, and only serializable reads are served; a majority of the members is down, or cut off from the others")
		return
	}
	for _, v := range members {
		switch {
		case v.status.Leader == 0:
			d.finding(v, Error, "cut-off", "on the member: journalctl -u etcd | grep -e peer -e rafthttp",
				"the member knows of no leader, which others have: it is cut off from its peers")
		case v.status.RaftTerm < term && len(d.clusters()) < 2:
			d.finding(v, Warning, "old-term", "on the member: journalctl -u etcd | grep -e peer -e rafthttp",
				"the member is in term %d, others are in term %d: it does not hear from the leader", v.status.RaftTerm, term)
		}
	}
}

// roles looks for learners, which serve no linearizable reads and no writes.
func (d *diagnosis) roles() {
	members := d.members()
	voters := slices.ContainsFunc(members, func(v *visit) bool { return !v.status.IsLearner })
	for _, v := range members {
		switch {
		case !v.status.IsLearner:
		case voters:
			d.finding(v, Note, "learner", "etcdctl member promote "+fmt.Sprintf("%x", v.status.Header.MemberId),
				"the member is a learner: it serves serializable reads only")
		default:
			d.finding(v, Error, "only-learners", "etcdctl member list --write-out=table; add the voting members to --endpoints",
				"the member is a learner, and no voting member answers: it refuses writes, linearizable reads and watches that require a leader")
		}
	}
}

var alarm = regexp.MustCompile(`memberID:(\d+)\s+alarm:(\w+)`)

// state evaluates the status of a member.
func (d *diagnosis) state(v *visit) {
	s := v.status
	if v.readErr != nil && s.Leader != 0 && !s.IsLearner {
		d.finding(v, Error, "read-failed", v.etcdctl("endpoint health"), "the member answers, and a linearizable read fails: %s", message(v.readErr))
	}
	if v.earlier != nil && s.RaftAppliedIndex < v.earlier.RaftIndex && v.earlier.RaftIndex-v.earlier.RaftAppliedIndex > lagBound {
		d.finding(v, Warning, "lagging", "on the member: iostat -x 1; journalctl -u etcd | grep 'took too long'",
			"the member has not applied in %v what was committed: it is %d entries behind; its disk or CPU is too slow", d.cfg.Settle, toApply(s))
	}
	for _, text := range s.Errors {
		if m := alarm.FindStringSubmatch(text); m != nil {
			d.alarm(m[1], m[2])
		}
	}
	d.size(v)
}

// alarm reports an alarm of the member with an ID once, whichever members report it.
func (d *diagnosis) alarm(id, kind string) {
	number, _ := strconv.ParseUint(id, 10, 64) // the expression has digits only
	name := cmp.Or(d.names[number], fmt.Sprintf("%x", number))
	cause := "its data differs from that of other members: the cluster refuses writes, until the alarm is disarmed"
	run := "etcdctl endpoint hashkv --cluster; then remove the member, add it anew, and: etcdctl alarm disarm"
	if kind == pb.AlarmType_NOSPACE.String() {
		cause = "its database reached the quota: the cluster refuses writes, until space is freed and the alarm disarmed"
		run = "etcdctl compact REVISION && etcdctl defrag --cluster && etcdctl alarm disarm"
	}
	f := Finding{Severity: Error, Code: "alarm", Member: name, Cause: "alarm " + kind + ": " + cause, Run: run}
	for _, other := range d.visits {
		if other.status != nil && other.status.Header.GetMemberId() == number {
			f.Endpoint = other.endpoint.String()
		}
	}
	if !slices.Contains(d.findings, f) {
		d.findings = append(d.findings, f)
	}
}

// size compares the database with its quota, which members tell since etcd 3.6.
func (d *diagnosis) size(v *visit) {
	s := v.status
	if share := float64(s.DbSize) / float64(s.DbSizeQuota); s.DbSizeQuota > 0 && share >= quotaBound {
		d.finding(v, Warning, "quota", "etcdctl compact REVISION && "+v.etcdctl("defrag"),
			"the database has %s of the %s that its quota allows (%.0f %%); at 100 %% the cluster refuses writes", sizeOf(s.DbSize), sizeOf(s.DbSizeQuota), 100*share)
	}
	if free := s.DbSize - s.DbSizeInUse; s.DbSizeInUse > 0 && free >= fragmentBound && free > s.DbSizeInUse {
		d.finding(v, Note, "fragmented", v.etcdctl("defrag  # it blocks the member for as long as it takes"),
			"%s of the %s of the database are free: a defragmentation returns them", sizeOf(free), sizeOf(s.DbSize))
	}
}

// versions compares the versions of the members.
func (d *diagnosis) versions() {
	of := map[string]bool{}
	for _, v := range d.members() {
		of[v.status.Version] = true
		if slices.Contains([]string{"3.5.0", "3.5.1", "3.5.2"}, v.status.Version) {
			d.finding(v, Warning, "bad-version", "upgrade the member to the latest release of 3.5", "etcd %s can lose consistency after a crash (fixed in 3.5.3)", v.status.Version)
		}
	}
	if len(of) > 1 && len(d.clusters()) < 2 {
		all := slices.Sorted(maps.Keys(of))
		d.clusterFinding(Warning, "mixed-versions", "etcdctl endpoint status --cluster --write-out=table", "the members run different versions: %s; finish the upgrade", strings.Join(all, ", "))
	}
}

// kinds reports endpoints that are not etcd members.
func (d *diagnosis) kinds() {
	for _, v := range d.served() {
		switch v.kind() {
		case kindProxy:
			d.finding(v, Note, "grpc-proxy", v.etcdctl("member list"),
				"this is etcd's grpc-proxy: what is seen here is the proxy, and the members behind it are chosen by it")
		case kindOther:
			d.finding(v, Note, "not-etcd", "", "this is no etcd member, but a server with etcd's API, such as kine: it names no member in its answers")
		}
	}
}

// clocks compares the clocks of the endpoints with that of this machine.
func (d *diagnosis) clocks() {
	var answered, wrong []*visit
	for _, v := range d.visits {
		if !v.web.clock || v.member != nil {
			continue
		}
		answered = append(answered, v)
		if v.web.skew.Abs() >= skewBound {
			wrong = append(wrong, v)
		}
	}
	const why = "certificates and tokens are checked with it (measured by the HTTP header Date, to the second)"
	if len(wrong) > 1 && len(wrong) == len(answered) {
		least := slices.MinFunc(wrong, func(a, b *visit) int { return cmp.Compare(a.web.skew.Abs(), b.web.skew.Abs()) })
		d.clusterFinding(Warning, "clock", "timedatectl", "the clock of this machine differs from those of all endpoints, by %v or more: %s", least.web.skew.Abs().Truncate(time.Second), why)
		return
	}
	for _, v := range wrong {
		direction := "ahead of"
		if v.web.skew < 0 {
			direction = "behind"
		}
		d.finding(v, Warning, "clock", "on the member, and on this machine: timedatectl",
			"the clock of the server is %v or more %s this machine's: %s", v.web.skew.Abs().Truncate(time.Second), direction, why)
	}
}

// slowness compares the fastest reads of the endpoints.
func (d *diagnosis) slowness() {
	for _, v := range d.served() {
		var others []time.Duration
		for _, o := range d.served() {
			if o != v && o.read > 0 && o.readErr == nil {
				others = append(others, o.read)
			}
		}
		if v.readErr != nil || len(others) == 0 {
			continue
		}
		slices.Sort(others)
		if usual := others[len(others)/2]; v.read > slowBound && v.read > slowRatio*usual {
			d.finding(v, Warning, "slow", "on the member: iostat -x 1; top; and ping it from here",
				"the fastest of %d linearizable reads took %v; %v at the other endpoints", samples, v.read.Round(time.Millisecond), usual.Round(time.Millisecond/10))
		}
	}
}

// keepalive compares the client's settings with what etcd allows by default.
func (d *diagnosis) keepalive() {
	c := keepalive.Etcd().Pair().Client
	c.Time, c.Timeout = cmp.Or(d.cfg.Client.DialKeepAliveTime, c.Time), cmp.Or(d.cfg.Client.DialKeepAliveTimeout, c.Timeout)
	c.PermitWithoutStream = d.cfg.Client.PermitWithoutStream
	if err := keepalive.Check(c, keepalive.Etcd().Pair().Server); err != nil {
		d.clusterFinding(Note, "keepalive", "", "keepalive: %v (compared with the defaults of etcd; a server is not asked)", err)
	}
}

func sizeOf(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
