package explain

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

func TestExplain(t *testing.T) {
	for _, tt := range []struct{ text, class, write, do string }{
		{"etcdserver: mvcc: required revision has been compacted", "Definite", "not executed", "The revision is gone for good"},
		{"rpc error: code = Unavailable desc = etcdserver: request timed out", "Ambiguous", "unknown", "did not commit in time"},
		{`{"level":"warn","error":"rpc error: code = ResourceExhausted desc = etcdserver: mvcc: database space exceeded"}`, "Executed", "unknown", "alarm disarm"},
		{"Error: etcdserver: permission denied", "Definite", "not executed", "grant-permission"},
		{"put shop/1: etcdserver: request timed out, possibly due to previous leader failure (x)", "Ambiguous", "unknown", "A leader was lost"},
		{"context deadline exceeded", "Ended", "unknown", "The caller gave up"},
		{"rpc error: code = DeadlineExceeded desc = context deadline exceeded", "Ambiguous", "unknown", "The caller gave up"},
		{"rpc error: code = Canceled desc = context canceled", "Ambiguous", "unknown", "The caller gave up"},
		{"Unavailable", "Ambiguous", "unknown", "read back"},
		{"UNAVAILABLE", "Ambiguous", "unknown", "read back"},
		{"14", "Ambiguous", "unknown", "read back"},
		{`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`, "NotSent", "not executed", "Nothing listens there"},
		{"dial tcp 127.0.0.1:1: connect: connection refused", "NotSent", "not executed", "Nothing listens there"},
		{
			`rpc error: code = DeadlineExceeded desc = latest balancer error: connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:2379: i/o timeout"`,
			"NotSent", "not executed", "a firewall drops",
		},
		{"rpc error: code = Unavailable desc = no children to pick from", "NotSent", "not executed", "quorate resolve"},
		{"rpc error: code = Unavailable desc = last resolver error: produced zero addresses", "NotSent", "not executed", "Repeat it"},
		{"put: m1: etcdserver: request timed out; m2: dial tcp 10.0.0.2:2379: connect: connection refused", "Ambiguous", "unknown", "did not commit in time"},
		{"remote error: tls: expired certificate", "NotSent", "not executed", "renew the file of --cert"},
		{
			(&retry.UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: status.Error(codes.Unavailable, "dial tcp 127.0.0.1:1: connect: connection refused")}).Error(),
			"Ambiguous", "unknown", "Nothing listens there",
		},
		{"wal: failed to write: no space left on device", "Ambiguous", "unknown", "df -h"},
		{
			`rpc error: code = Unavailable desc = closing transport due to: connection error: desc = "error reading from server: EOF", received prior goaway: code: ENHANCE_YOUR_CALM, debug data: "too_many_pings"`,
			"Ambiguous", "unknown", "pings more often",
		},
		{
			`rpc error: code = Unavailable desc = connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority"`,
			"NotSent", "not executed", "--cacert",
		},
	} {
		t.Run(tt.text, func(t *testing.T) {
			e, ok := Explain(tt.text)
			require.True(t, ok)
			assert.Equal(t, tt.class, e.Class)
			assert.Contains(t, e.Write, tt.write)
			assert.Contains(t, e.Do, tt.do)
			assert.NotEmpty(t, e.Why)
			assert.NotEmpty(t, e.Do)
		})
	}
	for _, text := range []string{"", "x", "no such file or directory", "bash: etcd: command not found", "code = Nonsense desc = x", "99"} {
		_, ok := Explain(text)
		assert.False(t, ok, text)
	}
}

// Every error of the tables is recognised by its text, bare and as gRPC prints it, and explained.
func TestEveryErrorIsExplained(t *testing.T) {
	for _, rule := range append(retry.ServerErrors(), retry.LocalErrors()...) {
		if rule.Prefix || rule.Message == "" {
			continue
		}
		for _, text := range []string{rule.Message, status.Error(rule.Code, rule.Message).Error()} {
			e, ok := Explain(text)
			require.True(t, ok, text)
			assert.NotEmpty(t, e.Do, text)
			assert.NotEmpty(t, e.Why, text)
		}
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		e, ok := Explain(status.Error(code, "whatever").Error())
		require.True(t, ok, code)
		assert.NotEmpty(t, e.Do, code)
		assert.Equal(t, code.String(), e.Code)
	}
}

// What is said of a write is what the library says to its caller.
func TestAgreesWithTheLibrary(t *testing.T) {
	for _, err := range []error{
		context.Canceled, status.Error(codes.Unavailable, "x"),
		&retry.UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: status.Error(codes.Unavailable, "etcdserver: request timed out")},
	} {
		e, ok := Explain(err.Error())
		require.True(t, ok, err)
		assert.Equal(t, writes[retry.OutcomeOf(err)], e.Write, err)
	}
}

// Names of the table of advice exist.
func TestNamesOfAdvice(t *testing.T) {
	names := map[string]bool{}
	for _, rule := range retry.ServerErrors() {
		names[rule.Name] = true
	}
	for name := range byName {
		assert.True(t, names[name], name)
	}
}
