// Package explain says what an error of etcd or gRPC means, from its text and from the tables of
// package retry.
package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

// Explanation is what a text means.
type Explanation struct {
	// Error is what was recognised in the text: a whole message, or a code and what follows it.
	Error string `json:"error"`
	// Name is the variable of package rpctypes, if the error has one.
	Name string `json:"name,omitempty"`
	// By says who makes the error: etcd, gRPC, or the program (context).
	By   string `json:"by"`
	Code string `json:"code,omitempty"`
	// Class is what the end of the attempt proves; see package retry.
	Class string `json:"class"`
	Why   string `json:"why"`
	// Write is the outcome of a write that ended with the error: "not executed" or "unknown".
	Write string `json:"write"`
	// Retries say what Quorate does with calls that ended with the error.
	MutatingCall   string `json:"mutating_call"`
	RepeatableCall string `json:"repeatable_call"`
	// Do says what its reader can do.
	Do string `json:"do"`
}

// Explain explains the error that a text has, which may stand in a line of a log. ok is false if
// there is none that is known.
func Explain(text string) (e Explanation, ok bool) {
	found, ok := recognise(text)
	if !ok {
		return Explanation{}, false
	}
	evidence := retry.Evidence{Sent: found.by == "etcd" || !neverSent(plain(text)), ContextErr: found.ended}
	class := retry.Classify(found.err, evidence)
	decision := decisionFor(class)
	if class == retry.NotSent {
		found.reason = "No connection was made, so nothing was sent."
	}
	e = Explanation{
		Error: found.text, Name: found.rule.Name, By: found.by, Class: class.String(), Why: cmp.Or(found.rule.Reason, found.reason, decision.Reason),
		Write: writes[retry.OutcomeOfAttempt(found.err, evidence)], MutatingCall: actions[decision.Mutating], RepeatableCall: actions[decision.Repeatable],
		Do: advice(text, found.rule.Name, class),
	}
	if found.ended == nil {
		e.Code = retry.CodeOf(found.err).String()
	}
	return e, true
}

func decisionFor(class retry.Class) retry.Decision {
	for _, d := range retry.Decisions() {
		if d.Class == class {
			return d
		}
	}
	return retry.Decision{Class: class, Mutating: retry.ReturnUnknown, Repeatable: retry.Return}
}

var writes = map[retry.Outcome]string{
	retry.OutcomeExecuted:    "executed",
	retry.OutcomeNotExecuted: "not executed: it had no effect, and will have none",
	retry.OutcomeUnknown:     "unknown: it was executed or not, or may still be",
}

var actions = map[retry.Action]string{
	retry.Return:        "returned to the caller; a repetition would end alike, or its caller no longer waits",
	retry.ReturnUnknown: "returned as *retry.UnknownOutcomeError, and never repeated: it could be executed twice",
	retry.Again:         "repeated by Quorate, on another endpoint if there is one, until the deadline of the caller",
	retry.Refresh:       "repeated by Quorate with a new token, if it has a user and a password or a TokenSource",
}

// recognised is an error that was found in a text.
type recognised struct {
	err    error
	text   string
	by     string
	rule   retry.Rule // zero if it has none
	reason string
	ended  error // the context's error, if it is one
}

// recognise finds the error in a text: a message of the tables, or else a code.
func recognise(text string) (recognised, bool) {
	text = plain(text)
	if r, ok := byMessage(text, retry.ServerErrors(), "etcd"); ok {
		return r, true
	}
	code, description, framed := frame(text)
	if !framed || code != codes.Canceled && code != codes.DeadlineExceeded {
		if r, ok := byMessage(text, retry.LocalErrors(), "gRPC, in the client"); ok {
			return r, true
		}
	}
	if framed {
		reason := reasonOf(code)
		if code == codes.DeadlineExceeded || code == codes.Canceled { // the text does not show whose it was
			reason = "The caller's own context ended, most often: gRPC reports that with this code, too. Otherwise: " + reason
		}
		return recognised{
			err: status.Error(code, description), text: strings.TrimSpace(code.String() + ": " + description), by: "gRPC", reason: reason,
		}, true
	}
	for _, ended := range []error{context.DeadlineExceeded, context.Canceled} {
		if strings.Contains(text, ended.Error()) {
			return recognised{err: ended, text: ended.Error(), by: "the context of the caller", ended: ended}, true
		}
	}
	switch _, known := adviceOn(text); {
	case strings.Contains(text, noSpaceLeft):
		return recognised{
			err: status.Error(codes.Unavailable, text), text: text, by: "the operating system of a member", reason: "The disk is full: the member ends.",
		}, true
	case known || strings.Contains(text, "connection error:"):
		return recognised{err: status.Error(codes.Unavailable, text), text: text, by: "gRPC, in the client", reason: reasonOf(codes.Unavailable)}, true
	}
	return recognised{}, false
}

// noConnection are texts of a resolver, or of an attempt to connect: gRPC has them in errors of calls that found no connection.
var noConnection = regexp.MustCompile(`no children to pick from|resolver error: |Error while dialing|\bdial (tcp|unix)|authentication handshake failed|error reading server preface|x509: |tls: `)

// neverSent reports whether a text shows that the call found no connection. An outcome that it calls unknown is that of an earlier attempt.
func neverSent(text string) bool {
	return noConnection.MatchString(text) && !strings.Contains(text, "it may or may not have been executed") && !strings.Contains(text, "error reading from server")
}

// plain returns the error, or the message, of a line of a log in JSON, and any other text as it is.
func plain(text string) string {
	text = strings.TrimSpace(text)
	var line map[string]any
	if json.Unmarshal([]byte(text), &line) == nil {
		for _, field := range []string{"error", "err", "msg"} {
			if s, ok := line[field].(string); ok && s != "" {
				return s
			}
		}
	}
	return text
}

// byMessage finds the longest message of a table in a text.
func byMessage(text string, table []retry.Rule, by string) (recognised, bool) {
	rules := slices.Clone(table)
	slices.SortStableFunc(rules, func(a, b retry.Rule) int { return cmp.Compare(len(b.Message), len(a.Message)) })
	for _, rule := range rules {
		if rule.Message != "" && strings.Contains(text, rule.Message) {
			return recognised{err: status.Error(rule.Code, rule.Message), text: strings.TrimSpace(rule.Message), by: by, rule: rule}, true
		}
	}
	return recognised{}, false
}

var (
	framed    = regexp.MustCompile(`(?s)code = (\w+)(?: desc = (.*))?`)
	codeAlone = regexp.MustCompile(`^(\w+)$`)
)

// frame returns code and description of a text such as "rpc error: code = Unavailable desc = …", or
// of a code alone.
func frame(text string) (codes.Code, string, bool) {
	m := framed.FindStringSubmatch(text)
	if m == nil {
		m = append(codeAlone.FindStringSubmatch(text), "")
	}
	if len(m) < 3 {
		return 0, "", false
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		if m[1] == strconv.Itoa(int(code)) || strings.EqualFold(m[1], code.String()) || strings.EqualFold(strings.ReplaceAll(m[1], "_", ""), code.String()) {
			return code, m[2], true
		}
	}
	return 0, "", false
}

func reasonOf(code codes.Code) string {
	for _, rule := range retry.Codes() {
		if rule.Code == code {
			return rule.Reason
		}
	}
	return ""
}

// Text returns the explanation for people.
func (e Explanation) Text() string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-16s %s\n", name, text)
		}
	}
	line("error", e.Error)
	line("made by", e.By)
	line("name", strings.TrimSuffix("rpctypes."+e.Name, "rpctypes."))
	line("code", e.Code)
	line("class", e.Class)
	line("why", e.Why)
	line("a write is", e.Write)
	line("mutating call", e.MutatingCall)
	line("repeatable call", e.RepeatableCall)
	line("do", e.Do)
	return b.String()
}

// byName is what to do about errors of etcd, by their name in rpctypes.
var byName = map[string]string{
	"ErrGRPCNoSpace":                       "Free space, then disarm: etcdctl compact REVISION; etcdctl defrag --cluster; etcdctl alarm disarm. Or raise --quota-backend-bytes.",
	"ErrGRPCCorrupt":                       "Find the member whose data differs: etcdctl endpoint hashkv --cluster. Remove it, add it anew, and: etcdctl alarm disarm.",
	"ErrGRPCCompacted":                     "The revision is gone for good. Read the present state, and watch from its revision plus one; compact less often, or read faster.",
	"ErrGRPCFutureRev":                     "The member has not come to the revision yet, or the store is another one. Repeat it linearizably, or on another member.",
	"ErrGRPCRequestTooLarge":               "Make the request smaller, or raise --max-request-bytes of all members. etcd is made for values below 1 MiB.",
	"ErrGRPCTooManyOps":                    "Split the transaction, or raise --max-txn-ops of all members.",
	"ErrGRPCDuplicateKey":                  "A transaction may put a key once. Correct the program.",
	"ErrGRPCLeaseNotFound":                 "The lease has expired or was revoked, and its keys with it. Grant another one, and put the keys again.",
	"ErrGRPCPermissionDenied":              "Grant the role what it needs: etcdctl role grant-permission ROLE read|write|readwrite KEY [RANGE_END].",
	"ErrGRPCAuthFailed":                    "Correct user or password.",
	"ErrGRPCUserEmpty":                     "Authentication is on: give a user and a password.",
	"ErrGRPCInvalidAuthToken":              "A token expired, or the member does not know it. Quorate gets another one; other clients must authenticate again.",
	"ErrGRPCNoLeader":                      "Wait for the election. If it does not end: quorate doctor.",
	"ErrGRPCLeaderChanged":                 "Repeat the read. After a write, read back whether it took place.",
	"ErrGRPCTimeout":                       "The cluster did not commit in time. Look at disks and network: quorate doctor. Read back whether a write took place.",
	"ErrGRPCTimeoutDueToLeaderFail":        "A leader was lost meanwhile. Read back whether a write took place.",
	"ErrGRPCTimeoutDueToConnectionLost":    "The member is cut off from its peers: quorate doctor. Read back whether a write took place.",
	"ErrGRPCRequestTooManyRequests":        "More is proposed than applied: slow down, and look at the disk of the leader.",
	"ErrGRPCNotSupportedForLearner":        "Ask a voting member, or promote the learner: etcdctl member promote ID.",
	"ErrGRPCUnhealthy":                     "The change of the membership waits until all members are healthy: quorate doctor.",
	"ErrGRPCMemberNotEnoughStarted":        "Start the members that are not running before the membership is changed.",
	"ErrGRPCStopped":                       "The member is shutting down. Another one serves.",
	"ErrGRPCWatchCanceled":                 "Watch again, from the last revision that was delivered plus one.",
	"ErrGRPCClusterVersionUnavailable":     "The cluster is still starting. Repeat it later.",
	"ErrGRPCAuthOldRevision":               "Users or roles were changed meanwhile. Repeat it.",
	"ErrGRPCAuthNotEnabled":                "Give no user, or turn authentication on: etcdctl auth enable.",
	"ErrGRPCRootUserNotExist":              "Add the user root before authentication is turned on: etcdctl user add root.",
	"ErrGRPCEmptyKey":                      "Give a key. For all keys, give the key \\0 and the range end \\0.",
	"ErrGRPCLeaseExist":                    "Another lease has that ID. Let the client choose one.",
	"ErrGRPCMemberNotFound":                "Look up the ID: etcdctl member list.",
	"ErrGRPCLeaseTTLTooLarge":              "Choose a shorter TTL.",
	"ErrGRPCTimeoutWaitAppliedIndex":       "The member does not apply in time what was committed: look at its disk and CPU with quorate doctor.",
	"ErrGRPCRoleNotGranted":                "Look at the roles of the user: etcdctl user get NAME.",
	"ErrGRPCInvalidClientAPIVersion":       "Upgrade the client.",
	"ErrGRPCNotLeader":                     "Ask the leader: etcdctl endpoint status --cluster.",
	"ErrGRPCUserNotFound":                  "Look up the name: etcdctl user list.",
	"ErrGRPCDowngradeInProcess":            "Finish or cancel it: etcdctl downgrade cancel.",
	"ErrGRPCNoInflightDowngrade":           "There is no downgrade to cancel.",
	"ErrGRPCInvalidDowngradeTargetVersion": "Choose the minor version before the one that runs.",
}

// byText is what to do about texts of gRPC, TLS and the network, the first that fits.
var byText = []struct{ text, do string }{
	{"too_many_pings", "The client pings more often than the server allows. Give it a keepalive time of 10 s or more, and no pings without streams."},
	{"certificate has expired or is not yet valid", "Renew the certificate, and compare the clocks. quorate doctor names the dates."},
	{"certificate signed by unknown authority", "Give the authority that signed the server's certificate as --cacert."},
	{"x509: certificate is valid for", "Reach the server by a name that its certificate has, or add the name to the certificate."},
	{"cannot validate certificate for", "Reach the server by a name that its certificate has, or add the address to the certificate."},
	{"certificate required", "The server demands a certificate of the client: give --cert and --key."},
	{"expired certificate", "The server refuses the certificate of the client, which has expired: renew the file of --cert. quorate doctor names the date."},
	{"bad certificate", "The server refuses the certificate of the client: it must be of the authority in --trusted-ca-file, and for client authentication."},
	{"first record does not look like a TLS handshake", "The server speaks plaintext: write http:// before the endpoint."},
	{"error reading server preface", "The server closed the connection: it speaks TLS and the endpoint says plaintext, or it is no gRPC server. quorate doctor tells."},
	{"connection refused", "Nothing listens there: is etcd running, and is the endpoint right? quorate doctor."},
	{"no children to pick from", "The resolver has no endpoint for the target; gRPC's log has the reason (GRPC_GO_LOG_SEVERITY_LEVEL=warning). quorate resolve TARGET."},
	{"no such host", "The name does not resolve: correct the endpoint, or DNS."},
	{noSpaceLeft, "Free space on the disk of the member's data directory (df -h), then start the member again; on a disk of its own it cannot be filled by others."},
	{"i/o timeout", "The host is down, or a firewall drops what is sent to it. quorate doctor."},
	{"grpc: received message ", "If the response is larger than the client takes, ask for less at a time, with a limit, or raise MaxCallRecvMsgSize; if the request is larger than the server takes, make it smaller."},
	{"trying to send message larger than max", "The request is larger than the client sends: make it smaller, or raise MaxCallSendMsgSize."},
	{"context deadline exceeded", gaveUp},
	{"context canceled", gaveUp},
}

// byClass is what to do about the rest.
var byClass = map[retry.Class]string{
	retry.Definite:   "Correct the request: it would fail again.",
	retry.NotSent:    "Repeat it; nothing was sent. If it stays: quorate doctor.",
	retry.Refused:    "Repeat it on another member. If all refuse: quorate doctor.",
	retry.NoLeader:   "Wait for the election. If it does not end: quorate doctor.",
	retry.Overloaded: "Repeat it later, and less often.",
	retry.Token:      "Authenticate again.",
	retry.Ambiguous:  "Repeat reads. For a write, read back what it would have changed, or make it conditional (a Txn that compares a revision) and repeat it.",
	retry.Executed:   "For a write, read back whether it took place. Do not repeat it as it is.",
	retry.Closed:     "The client was closed before. Make another one.",
}

const (
	noSpaceLeft = "no space left on device"
	gaveUp      = "The caller gave up. If it should not have had to: was the deadline longer than an election (1 to 2 s)? quorate doctor. Read back whether a write took place."
)

func adviceOn(text string) (do string, ok bool) {
	for _, rule := range byText {
		if strings.Contains(text, rule.text) {
			return rule.do, true
		}
	}
	return "", false
}

func advice(text, name string, class retry.Class) string {
	if do, ok := byName[name]; ok {
		return do
	}
	if do, ok := adviceOn(text); ok {
		return do
	}
	return byClass[class]
}
