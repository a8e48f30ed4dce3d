package channel

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/health"
)

var _ credentials.PerRPCCredentials = (*tokenSource)(nil)

// attach adds a call option that attaches the token, if there is one, and refuses to send a
// secret in plaintext. A call without a secret gets none. The user's own credentials among
// the options stay in effect.
func (s *tokenSource) attach(opts []grpc.CallOption, method string, a *attempt) []grpc.CallOption {
	t, anonymous := s.current.Load(), a != nil && a.anonymous
	if a != nil && !anonymous {
		a.token.Store(t) // also an empty one, which a refusal invalidates
	}
	if (anonymous || t == nil || t.value == "") && !hasPassword(method) {
		return opts
	}
	option := s.option
	for _, opt := range opts {
		if users, ok := opt.(grpc.PerRPCCredsCallOption); ok && users.Creds != nil {
			option = grpc.PerRPCCredentials(joinedCredentials{users.Creds, s})
		}
	}
	return append(slices.Clip(opts), option)
}

// joinedCredentials combines the user's credentials and the token.
type joinedCredentials struct {
	credentials.PerRPCCredentials
	tokens *tokenSource
}

func (j joinedCredentials) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	md, err := j.tokens.GetRequestMetadata(ctx, uri...)
	if err != nil {
		return nil, err
	}
	users, err := j.PerRPCCredentials.GetRequestMetadata(ctx, uri...)
	if err != nil {
		return nil, err
	}
	both := make(map[string]string, len(users)+len(md))
	maps.Copy(both, users)
	maps.Copy(both, md)
	return both, nil
}

// tokenProber attaches the token to probes, which bypass interceptors.
type tokenProber struct {
	health.Prober
	tokens *tokenSource
}

func (p tokenProber) Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(health.Report)) {
	p.Prober.Probe(ctx, tokenConn{conn, p.tokens}, report)
}

type tokenConn struct {
	grpc.ClientConnInterface
	tokens *tokenSource
}

func (c tokenConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(ctx, method, req, reply, c.tokens.attach(opts, method, nil)...)
}

// GetRequestMetadata implements credentials.PerRPCCredentials. It fails if a secured client
// would send a secret in plaintext.
func (s *tokenSource) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	a := attemptFrom(ctx)
	t := s.current.Load()
	if t == nil || a != nil && a.anonymous {
		t = noToken
	}
	if s.secured != nil && s.secured() && isPlaintext(ctx) {
		if a == nil {
			return noToken.metadata, nil // a probe, which needs no token
		}
		if err := s.refusePlaintext(ctx, a, t); err != nil {
			return nil, err
		}
	}
	if a != nil && !a.anonymous {
		a.token.Store(t)
	}
	return t.metadata, nil
}

// refusePlaintext returns an error if the attempt would send a token or a password in
// plaintext.
func (s *tokenSource) refusePlaintext(ctx context.Context, a *attempt, t *token) error {
	what := "the token"
	if info, _ := credentials.RequestInfoFromContext(ctx); hasPassword(info.Method) {
		what = "a password"
	} else if t.value == "" {
		return nil
	}
	a.marks.Or(markInsecure)
	return errPlaintext(what, cmp.Or(s.name(a.endpoint()), "an endpoint"))
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. etcd accepts tokens
// in plaintext, and a client that is not secured sends them.
func (s *tokenSource) RequireTransportSecurity() bool { return false }
