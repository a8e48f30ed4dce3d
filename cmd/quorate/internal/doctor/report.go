package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/cmd/internal/cli"
)

// Report is what was found.
type Report struct {
	// Healthy says that there are neither errors nor warnings.
	Healthy   bool       `json:"healthy"`
	Endpoints []Endpoint `json:"endpoints"`
	Findings  []Finding  `json:"findings"` // [] for none
	// Redundancy says how many voting members can be lost before writes stop; empty if a finding does, or it is not known.
	Redundancy string `json:"redundancy,omitempty"`
}

// Endpoint is what an endpoint showed. Times are in milliseconds; 0 if the step was not reached.
type Endpoint struct {
	Endpoint     string   `json:"endpoint"`
	Member       string   `json:"member,omitempty"`
	MemberID     string   `json:"member_id,omitempty"`
	ClusterID    string   `json:"cluster_id,omitempty"`
	Kind         string   `json:"kind,omitempty"` // etcd, grpc-proxy, other
	Version      string   `json:"version,omitempty"`
	Role         string   `json:"role,omitempty"` // leader, follower, learner, no leader
	Term         uint64   `json:"term,omitempty"`
	NameMS       float64  `json:"name_ms"`
	ConnectMS    float64  `json:"connect_ms"`
	HandshakeMS  float64  `json:"handshake_ms"`
	ReadMS       float64  `json:"read_ms"`
	FsyncMS      float64  `json:"wal_fsync_p99_ms,omitempty"` // of its metrics: bounds of 99 %, since it started
	CommitMS     float64  `json:"backend_commit_p99_ms,omitempty"`
	PeerMS       float64  `json:"peer_round_trip_p99_ms,omitempty"`
	CertExpiry   string   `json:"certificate_expires,omitempty"`
	Lag          uint64   `json:"entries_to_apply"`
	DBSize       int64    `json:"db_size"`
	DBInUse      int64    `json:"db_in_use"`
	DBQuota      int64    `json:"db_quota,omitempty"`
	ClockSkewS   *float64 `json:"clock_skew_s,omitempty"` // at least, at most 1 s more; absent if the server tells no time
	FailedAtStep string   `json:"failed_at,omitempty"`    // name, tcp, tls, auth, status
}

// Kinds of servers.
const (
	kindEtcd  = "etcd"
	kindProxy = "grpc-proxy"
	kindOther = "other"
)

func (v *visit) kind() string {
	switch {
	case v.web.proxy:
		return kindProxy
	case v.status.Header.GetMemberId() == 0:
		return kindOther
	}
	return kindEtcd
}

func (v *visit) role() string {
	switch s := v.status; {
	case v.kind() != kindEtcd: // it is no member
		return ""
	case s.IsLearner:
		return "learner"
	case s.Leader == 0:
		return "no leader"
	case s.Leader == s.Header.GetMemberId():
		return "leader"
	}
	return "follower"
}

// toApply returns how many committed entries a member has not applied. The member reads the commit index first, so
// the applied index may be higher.
func toApply(s *pb.StatusResponse) uint64 { return s.RaftIndex - min(s.RaftIndex, s.RaftAppliedIndex) }

func nameOf(m *pb.Member) string {
	return cmp.Or(m.Name, fmt.Sprintf("%x", m.ID))
}

func newReport(visits []*visit, d *diagnosis) Report {
	r := Report{Healthy: !slices.ContainsFunc(d.findings, func(f Finding) bool { return f.Severity != Note }), Findings: d.findings, Redundancy: d.redundancy}
	for _, v := range visits {
		r.Endpoints = append(r.Endpoints, v.report(d.memberOf(v)))
	}
	return r
}

func (v *visit) report(member string) Endpoint {
	e := Endpoint{
		Endpoint: v.endpoint.String(), Member: member, NameMS: ms(v.resolve), ConnectMS: ms(v.connect), HandshakeMS: ms(v.handshake),
		FailedAtStep: string(v.failed),
	}
	if len(v.certificates) > 0 {
		e.CertExpiry = v.certificates[0].NotAfter.UTC().Format(time.RFC3339)
	}
	if v.web.clock {
		skew := v.web.skew.Seconds()
		e.ClockSkewS = &skew
	}
	if v.status == nil {
		return e
	}
	s := v.status
	e.Kind, e.Version, e.Role = v.kind(), s.Version, v.role()
	e.MemberID, e.ClusterID = fmt.Sprintf("%x", s.Header.GetMemberId()), fmt.Sprintf("%x", s.Header.GetClusterId())
	e.Term, e.Lag = s.RaftTerm, toApply(s)
	if e.Kind == kindEtcd { // a proxy passes on the metrics of a member
		e.FsyncMS = p99(v.web.metrics, "etcd_disk_wal_fsync_duration_seconds")
		e.CommitMS = p99(v.web.metrics, "etcd_disk_backend_commit_duration_seconds")
		e.PeerMS = p99(v.web.metrics, "etcd_network_peer_round_trip_time_seconds")
	}
	e.DBSize, e.DBInUse, e.DBQuota = s.DbSize, s.DbSizeInUse, s.DbSizeQuota
	if v.readErr == nil {
		e.ReadMS = ms(v.read)
	}
	return e
}

func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// Codes returns what was found and where, without the figures, which differ each time.
func (r Report) Codes() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f.Severity, f.Code, about(f))
	}
	return b.String()
}

// Text returns the report for people.
func (r Report) Text() string {
	var b strings.Builder
	lines := make([][]string, 1+len(r.Endpoints))
	lines[0] = []string{"ENDPOINT", "MEMBER", "KIND", "VERSION", "ROLE", "TERM", "CONNECT", "TLS", "READ", "FSYNC", "COMMIT", "PEERS", "TO APPLY", "DB / QUOTA", "CLOCK"}
	for i, e := range r.Endpoints {
		lines[i+1] = e.cells()
	}
	cli.Table(&b, lines)
	b.WriteByte('\n')
	for _, f := range r.Findings {
		b.WriteString(f.text())
	}
	if len(r.Findings) == 0 {
		b.WriteString("Nothing is wrong.\n")
	}
	if r.Redundancy != "" {
		b.WriteString(r.Redundancy + ".\n")
	}
	return b.String()
}

// cells returns a row of the table.
func (e Endpoint) cells() []string {
	took := cli.Milliseconds
	atMost := func(ms float64) string { return strings.TrimSuffix("≤ "+took(ms), "≤ ") }
	cells := []string{
		e.Endpoint, e.Member, e.Kind, e.Version, e.Role, "", took(e.ConnectMS), took(e.HandshakeMS), took(e.ReadMS),
		atMost(e.FsyncMS), atMost(e.CommitMS), atMost(e.PeerMS), "", "", cmp.Or(e.clock(), "-"),
	}
	if e.Kind != "" {
		cells[12], cells[13] = fmt.Sprint(e.Lag), sizeOf(e.DBSize)
		if e.Term > 0 {
			cells[5] = fmt.Sprint(e.Term)
		}
		if e.DBQuota > 0 {
			cells[13] += " / " + sizeOf(e.DBQuota)
		}
	}
	return cells
}

// clock returns the range of the skew, apart from the time of the request.
func (e Endpoint) clock() string {
	switch {
	case e.ClockSkewS == nil:
		return ""
	case *e.ClockSkewS == 0:
		return "±1 s"
	}
	return fmt.Sprintf("%+.1f…%.1f s", *e.ClockSkewS, math.Abs(*e.ClockSkewS)+1)
}

// about returns what a finding is about, "" for the cluster.
func about(f Finding) string {
	if f.Member != "" && f.Endpoint != "" {
		return f.Member + " (" + f.Endpoint + ")"
	}
	return f.Member + f.Endpoint
}

func (f Finding) text() string {
	out := fmt.Sprintf("%-8s %s: %s\n", f.Severity, cmp.Or(about(f), "cluster"), f.Cause)
	if f.Run != "" {
		out += "         → " + f.Run + "\n"
	}
	return out
}

// Severity says how bad a finding is.
type Severity string

// Severities. A note is worth knowing; nothing needs to be done about it.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Finding is one thing that was found.
type Finding struct {
	Severity Severity `json:"severity"`
	// Code names what was found, for programs; docs/program.md lists the codes.
	Code string `json:"code"`
	// Member is the name of the member, if it is known, and Endpoint how it was reached. Both
	// are empty if the finding is about the cluster.
	Member   string `json:"member,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	Cause    string `json:"cause"`
	// Run is a command that shows more, or repairs it.
	Run string `json:"run,omitempty"`
}

// finding adds a finding about the endpoint of a visit. An Error becomes a Warning if no endpoint names the member: it
// fails no call.
func (d *diagnosis) finding(v *visit, s Severity, code, run, cause string, args ...any) {
	if s == Error && v.member != nil && !d.cfg.Cluster {
		s = Warning
	}
	d.findings = append(d.findings, Finding{
		Severity: s, Code: code, Member: d.memberOf(v), Endpoint: v.endpoint.String(), Cause: fmt.Sprintf(cause, args...), Run: run,
	})
}

// clusterFinding adds a finding about the cluster.
func (d *diagnosis) clusterFinding(s Severity, code, run, cause string, args ...any) {
	d.findings = append(d.findings, Finding{Severity: s, Code: code, Cause: fmt.Sprintf(cause, args...), Run: run})
}
