package retry

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Rule is an error text with a known class.
type Rule struct {
	// Name is the variable of rpctypes that holds the error. It is empty for a
	// text that has none.
	Name string
	// Code and Message are those of the gRPC status.
	Code    codes.Code
	Message string
	// Prefix is set if Message is only the beginning of the text.
	Prefix bool
	Class  Class
	// Except is the full method for which the class is [Ambiguous] instead, because the
	// server may have executed the request before this error. Mostly empty.
	Except string
	// Reason says in one sentence where the error originates, and what that proves.
	Reason string
}

func (r *Rule) classFor(method string) Class {
	if r.Except != "" && r.Except == method {
		return Ambiguous
	}
	return r.Class
}

// ServerErrors returns the errors of an etcd server with a known class: first every
// ErrGRPC… of rpctypes, then texts that have no entry there.
//
// An error is recognised by its whole message, with the code of the table or with
// Unknown. Unknown occurs when a server returns the client-side form of an error, which
// loses the code: etcd does so for "too many requests" and "not enough started members",
// grpc-proxy for all errors.
func ServerErrors() []Rule {
	return append([]Rule(nil), serverErrors...)
}

func serverError(name string, err error, class Class, reason string) Rule {
	s, _ := status.FromError(err)
	return Rule{Name: name, Code: s.Code(), Message: s.Message(), Class: class, Reason: reason}
}

var serverErrors = concat(
	requestErrors, leaseErrors, memberErrors, authErrors, clusterErrors, downgradeErrors, unnamedErrors)

var serverErrorsByMessage = func() map[string]*Rule {
	byMessage := make(map[string]*Rule, len(serverErrors))
	for i := range serverErrors {
		byMessage[serverErrors[i].Message] = &serverErrors[i]
	}
	return byMessage
}()

func concat(tables ...[]Rule) []Rule {
	var all []Rule
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}

// lookupServerError finds the rule for a status of an etcd server. A method
// outside etcd's own services has no rule: its service may have made the same
// error in the middle of its work, as etcd's lock and election services do,
// which are composed of several calls.
func lookupServerError(code codes.Code, message, method string) (*Rule, bool) {
	r, ok := serverErrorsByMessage[message]
	if !ok || (code != r.Code && code != codes.Unknown) {
		return nil, false
	}
	if method != "" {
		if _, listed := methodsByName[method]; !listed {
			return nil, false
		}
	}
	return r, true
}
