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
