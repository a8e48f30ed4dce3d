package doctor

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Report is what was found.
type Report struct {
	// Healthy tells that there are neither errors nor warnings.
	Healthy   bool       `json:"healthy"`
	Endpoints []Endpoint `json:"endpoints"`
	Findings  []Finding  `json:"findings"` // [] for none
}

// Endpoint is what an endpoint showed. Times are in milliseconds; 0 if it did not come to that.
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
	case s.Header.GetMemberId() == 0: // it is no member
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

// unsettled reports whether something was seen that an election or a moment of load explains, too.
func unsettled(visits []*visit) bool {
	var term uint64
	for _, v := range visits {
		term = max(term, v.status.GetRaftTerm())
	}
	return slices.ContainsFunc(visits, func(v *visit) bool {
		s := v.status
		if s == nil {
			return false
		}
		lost := status.Code(v.readErr) == codes.Unavailable || status.Code(v.readErr) == codes.DeadlineExceeded
		return s.Header.GetMemberId() != 0 && (s.Leader == 0 || s.RaftTerm < term || s.RaftIndex-s.RaftAppliedIndex > lagBound) || lost
	})
}

func nameOf(m *pb.Member) string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprintf("%x", m.ID)
}

func newReport(visits []*visit, findings []Finding) Report {
	r := Report{Healthy: true, Findings: findings}
	if findings == nil {
		r.Findings = []Finding{}
	}
	for _, f := range findings {
		r.Healthy = r.Healthy && f.Severity == Note
	}
	names := map[uint64]string{}
	for _, v := range visits {
		for _, m := range v.members.GetMembers() {
			names[m.ID] = nameOf(m)
		}
	}
	for _, v := range visits {
		r.Endpoints = append(r.Endpoints, v.report(names))
	}
	return r
}

func (v *visit) report(names map[uint64]string) Endpoint {
	e := Endpoint{
		Endpoint: v.endpoint.String(), NameMS: ms(v.resolve), ConnectMS: ms(v.connect), HandshakeMS: ms(v.handshake),
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
	e.Member, e.Kind, e.Version, e.Role = names[s.Header.GetMemberId()], v.kind(), s.Version, v.role()
	e.MemberID, e.ClusterID = fmt.Sprintf("%x", s.Header.GetMemberId()), fmt.Sprintf("%x", s.Header.GetClusterId())
	e.Term, e.Lag = s.RaftTerm, s.RaftIndex-s.RaftAppliedIndex
	e.DBSize, e.DBInUse, e.DBQuota = s.DbSize, s.DbSizeInUse, s.DbSizeQuota
	if v.readErr == nil {
		e.ReadMS = ms(v.read)
	}
	return e
}

func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// Text writes the report for people.
func (r Report) Text(w io.Writer) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ENDPOINT\tMEMBER\tKIND\tVERSION\tROLE\tTERM\tCONNECT\tTLS\tREAD\tTO APPLY\tDB / QUOTA\tCLOCK") // b takes everything
	for _, e := range r.Endpoints {
		_, _ = fmt.Fprintln(table, strings.Join(e.cells(), "\t"))
	}
	_ = table.Flush() // to b
	b.WriteByte('\n')
	for _, f := range r.Findings {
		b.WriteString(f.text())
	}
	if len(r.Findings) == 0 {
		b.WriteString("Nothing is wrong.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cells returns a row of the table; "-" is what is not known.
func (e Endpoint) cells() []string {
	cells := []string{e.Endpoint, e.Member, e.Kind, e.Version, e.Role, "", took(e.ConnectMS), took(e.HandshakeMS), took(e.ReadMS), "", "", e.clock()}
	if e.Kind != "" {
		cells[9], cells[10] = fmt.Sprint(e.Lag), sizeOf(e.DBSize)
		if e.Term > 0 {
			cells[5] = fmt.Sprint(e.Term)
		}
		if e.DBQuota > 0 {
			cells[10] += " / " + sizeOf(e.DBQuota)
		}
	}
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
	}
	return cells
}

// clock returns the range that the skew is in, but for the time of the request.
func (e Endpoint) clock() string {
	switch {
	case e.ClockSkewS == nil:
		return ""
	case *e.ClockSkewS == 0:
		return "±1 s"
	}
	return fmt.Sprintf("%+.1f…%.1f s", *e.ClockSkewS, math.Abs(*e.ClockSkewS)+1)
}

func took(ms float64) string {
	switch {
	case ms == 0:
		return ""
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

func (f Finding) text() string {
	about := "cluster"
	switch {
	case f.Member != "" && f.Endpoint != "":
		about = f.Member + " (" + f.Endpoint + ")"
	case f.Member != "" || f.Endpoint != "":
		about = f.Member + f.Endpoint
	}
	out := fmt.Sprintf("%-8s %s: %s\n", f.Severity, about, f.Cause)
	if f.Run != "" {
		out += "         → " + f.Run + "\n"
	}
	return out
}
