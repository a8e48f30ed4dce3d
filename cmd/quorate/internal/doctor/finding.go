package doctor

import "fmt"

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
	// Code names what was found, for programs.
	Code Code `json:"code"`
	// Member is the name of the member, if it is known, and Endpoint how it was reached. Both
	// are empty if the finding is about the cluster.
	Member   string `json:"member,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	Cause    string `json:"cause"`
	// Run is a command that shows more, or repairs it.
	Run string `json:"run,omitempty"`
}

// Code names a kind of finding.
type Code string

// Codes, by step.
const (
	NameUnknown Code = "name-unknown" // the name of the endpoint does not resolve

	Refused      Code = "refused"      // nothing listens
	Unreachable  Code = "unreachable"  // no connection, for another reason
	Closed       Code = "closed"       // connections are closed at once
	Silent       Code = "silent"       // a connection, and no answer
	SpeaksTLS    Code = "speaks-tls"   // the endpoint says plaintext, the server speaks TLS
	SpeaksClear  Code = "speaks-clear" // the endpoint says TLS, the server speaks plaintext
	TLSExpired   Code = "tls-expired"
	TLSNotYet    Code = "tls-not-yet-valid"
	TLSExpires   Code = "tls-expires-soon"
	TLSName      Code = "tls-wrong-name"
	TLSAuthority Code = "tls-unknown-authority"
	TLSClient    Code = "tls-client-certificate" // the server wants one of ours, or another
	TLSFailed    Code = "tls-failed"             // anything else

	AuthRequired Code = "auth-required"
	AuthRefused  Code = "auth-refused"
	AuthOff      Code = "auth-off" // a user is given, and the cluster has none

	Failed     Code = "failed"      // the status cannot be asked for, for another reason
	ReadFailed Code = "read-failed" // a linearizable read fails
	Slow       Code = "slow"

	NoLeader     Code = "no-leader" // of the cluster
	CutOff       Code = "cut-off"   // a member without a leader, where others have one
	OldTerm      Code = "old-term"
	Lagging      Code = "lagging"
	Alarm        Code = "alarm"
	Quota        Code = "quota"
	Fragmented   Code = "fragmented"
	Learner      Code = "learner"
	OnlyLearners Code = "only-learners"
	MixedVersion Code = "mixed-versions"
	BadVersion   Code = "bad-version"
	OtherCluster Code = "other-cluster"
	NotStarted   Code = "not-started"
	Redundancy   Code = "redundancy" // one more loss stops writes
	HashDiffers  Code = "hash-differs"
	HashUnknown  Code = "hash-unknown" // it was to be compared

	AdvertisedUnreachable Code = "advertised-unreachable"
	AdvertisedClear       Code = "advertised-clear"
	AdvertisedOther       Code = "advertised-other" // another member answers there
	NotAnEndpoint         Code = "not-an-endpoint"

	Clock     Code = "clock"
	Keepalive Code = "keepalive"
	GRPCProxy Code = "grpc-proxy"
	NotEtcd   Code = "not-etcd"
)

// finding makes one of an endpoint. What is wrong with a member that no endpoint names fails no call.
func (d *diagnosis) finding(v *visit, s Severity, code Code, run, cause string, args ...any) {
	if s == Error && v.member != nil && !d.cfg.Cluster {
		s = Warning
	}
	d.findings = append(d.findings, Finding{
		Severity: s, Code: code, Member: d.memberOf(v), Endpoint: v.endpoint.String(), Cause: fmt.Sprintf(cause, args...), Run: run,
	})
}

// clusterFinding makes one of the cluster.
func (d *diagnosis) clusterFinding(s Severity, code Code, run, cause string, args ...any) {
	d.findings = append(d.findings, Finding{Severity: s, Code: code, Cause: fmt.Sprintf(cause, args...), Run: run})
}
