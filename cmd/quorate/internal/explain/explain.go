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
	err, ok := recognise(text)
	if !ok {
		return Explanation{}, false
	}
	evidence := retry.Evidence{Sent: !neverSent(text), ContextErr: err.ended}
	class := retry.Classify(err.err, evidence)
	decision := decisionFor(class)
	if class == retry.NotSent {
		err.reason = "No connection was made, so nothing was sent."
	}
	e = Explanation{
		Error: err.text, Name: err.rule.Name, By: err.by, Class: class.String(), Why: cmp.Or(err.rule.Reason, err.reason, decision.Reason),
		Write: writes[retry.OutcomeOfAttempt(err.err, evidence)], MutatingCall: actions[decision.Mutating], RepeatableCall: actions[decision.Repeatable],
		Do: advice(text, err.rule.Name, class),
	}
	if err.ended == nil {
		e.Code = retry.CodeOf(err.err).String()
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
			return recognised{err: status.Error(rule.Code, rule.Message), text: rule.Message, by: by, rule: rule}, true
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
