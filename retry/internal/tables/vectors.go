package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

// attempt is an attempt of a call that ended with an error, and the action of the default policy.
type attempt struct {
	Method  string     `json:"method"`
	Code    codes.Code `json:"code"`
	Message string     `json:"message"`
	// Sent and Answered are those of [retry.Evidence]. ContextEnded is set if the context has.
	Sent         bool `json:"sent"`
	Answered     bool `json:"answered"`
	ContextEnded bool `json:"contextEnded"`

	Class  string `json:"class"`
	Action string `json:"action"`
	// Outcome is what a write's caller knows. It is empty for repeatable calls.
	Outcome string `json:"outcome,omitempty"`
}

// delay bounds the wait before a repetition: from LeastMS to MostMS milliseconds.
type delay struct {
	InitialBackoffMS  float64 `json:"initialBackoffMs"`
	MaxBackoffMS      float64 `json:"maxBackoffMs"`
	BackoffMultiplier float64 `json:"backoffMultiplier"`
	Jitter            float64 `json:"jitter"`
	Repetition        int     `json:"repetition"`
	LeastMS           float64 `json:"leastMs"`
	MostMS            float64 `json:"mostMs"`
}

const (
	get  = pb.KV_Range_FullMethodName
	put  = pb.KV_Put_FullMethodName
	lock = "/v3lockpb.Lock/Lock" // a service that consists of several calls
)

// vectors returns the content of the file, one case a line.
func vectors() ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintln(&out, `{"attempts": [`)
	err := lines(&out, attempts())
	fmt.Fprintln(&out, `], "delays": [`)
	if err == nil {
		err = lines(&out, delays())
	}
	fmt.Fprintln(&out, "]}")
	return out.Bytes(), err
}

func lines[T any](out *bytes.Buffer, cases []T) error {
	separator := ""
	for _, c := range cases {
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s%s", separator, text)
		separator = ",\n"
	}
	fmt.Fprintln(out)
	return nil
}

// attempts are the errors of servers, of the gRPC library, and of each code.
func attempts() []attempt {
	var all []attempt
	add := func(method string, code codes.Code, message string, a attempt) {
		a.Method, a.Code, a.Message = method, code, message
		all = append(all, expectOf(status.Error(code, message), a))
	}
	for _, r := range retry.ServerErrors() {
		methods := []string{get, put, lock}
		if r.Except != "" {
			methods = append(methods, r.Except)
		}
		for _, method := range methods {
			add(method, r.Code, r.Message, attempt{Sent: true, Answered: true})
		}
		add(put, codes.Unknown, r.Message, attempt{Sent: true, Answered: true})
	}
	for _, r := range retry.LocalErrors() {
		text := r.Message
		if r.Prefix {
			text += " and more"
		}
		for _, method := range []string{get, put} {
			for _, a := range []attempt{{}, {Sent: true}, {Sent: true, Answered: true}} {
				add(method, r.Code, text, a)
			}
		}
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, method := range []string{get, put} {
			for _, a := range []attempt{{}, {Sent: true}, {Sent: true, ContextEnded: true}, {Sent: true, Answered: true}} {
				add(method, code, "a text of no table", a)
			}
		}
	}
	return all
}

// expectOf fills in what follows from the error.
func expectOf(err error, a attempt) attempt {
	ev := retry.Evidence{Sent: a.Sent, Answered: a.Answered, Method: a.Method}
	if a.ContextEnded {
		ev.ContextErr = context.DeadlineExceeded
	}
	class, safety := retry.Classify(err, ev), retry.SafetyOf(a.Method, nil)
	action := retry.Decide(class, safety)
	if class == retry.Ambiguous && action == retry.Again && !(retry.Policy{}).Retryable(retry.CodeOf(err)) {
		action = retry.Return
	}
	a.Class, a.Action = class.String(), action.String()
	if safety == retry.Mutating {
		a.Outcome = retry.OutcomeOfAttempt(err, ev).String()
	}
	return a
}

// delays are those of the default policy, and of one with gRFC A6's jitter.
func delays() []delay {
	grpc := retry.Policy{InitialBackoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second, BackoffMultiplier: 1.6, Jitter: 0.2}
	var all []delay
	for _, p := range []retry.Policy{retry.DefaultConfig().Default, grpc} {
		for n := 1; n <= 10; n++ {
			bound := min(ms(p.MaxBackoff), ms(p.InitialBackoff)*math.Pow(p.BackoffMultiplier, float64(n-1)))
			d := delay{ms(p.InitialBackoff), ms(p.MaxBackoff), p.BackoffMultiplier, p.Jitter, n, 0, bound}
			if p.Jitter > 0 {
				d.LeastMS, d.MostMS = bound*(1-p.Jitter), bound*(1+p.Jitter)
			}
			all = append(all, d)
		}
	}
	return all
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
