package channel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc/credentials"
)

// Login is what the user gave to authenticate with: a name and a password, or
// a token (JWT) made elsewhere, or nothing.
type Login struct {
	Username, Password string
	Token              string
}

func (l Login) password() bool { return l.Username != "" && l.Password != "" }

// token is a credential together with the request metadata that carries it.
type token struct {
	value    string
	metadata map[string]string
}

func newToken(value string) *token {
	t := &token{value: value, metadata: map[string]string{
		rpctypes.MetadataClientAPIVersionKey: version.APIVersion,
	}}
	if value != "" {
		t.metadata[rpctypes.TokenFieldNameGRPC] = value
	}
	return t
}

// noToken carries the API version alone.
var noToken = newToken("")

// tokenSource holds the token of a client. It is fetched once for all calls
// and streams and kept until the server refuses it; however many calls find
// out at the same time, one Authenticate replaces it.
type tokenSource struct {
	login        func() Login
	authenticate func(ctx context.Context, name, password string) (string, error)

	current atomic.Pointer[token] // nil when there is none, or it was refused

	mu     sync.Mutex
	flight *flight // the Authenticate under way, if there is one
}

// flight is one Authenticate and those who wait for it. It ends early when
// nobody waits any more.
type flight struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
}

// ensure fetches a token if there should be one and is none.
func (s *tokenSource) ensure(ctx context.Context) error {
	login := s.login()
	if login.Token != "" {
		s.adopt(login.Token)
		return nil
	}
	if !login.password() || s.current.Load() != nil {
		return nil
	}
	return s.fetch(ctx)
}

// replace is called when the server refused used, and reports whether the call
// may be repeated: with another token, or because the server's answer does not
// depend on one.
func (s *tokenSource) replace(ctx context.Context, used *token, refusal error) (bool, error) {
	if !s.disown(used, refusal) {
		return false, nil
	}
	return true, s.ensure(ctx)
}

// disown is replace without waiting for the other token: the next ensure
// fetches it.
func (s *tokenSource) disown(used *token, refusal error) bool {
	login := s.login()
	switch {
	case used != nil && used.value != "" && errors.Is(rpctypes.Error(refusal), rpctypes.ErrUserEmpty):
		// It is the request that names no user; the token was there.
		return false
	case login.Token != "":
		return used == nil || used.value != login.Token
	case !login.password():
		// A client known by its certificate has no token that could be stale,
		// but it too meets a server whose users are being changed.
		return errors.Is(rpctypes.Error(refusal), rpctypes.ErrAuthOldRevision)
	default:
		s.drop(used)
		return true
	}
}

// adopt makes the user's own token the current one.
func (s *tokenSource) adopt(value string) {
	if t := s.current.Load(); t == nil || t.value != value {
		s.current.Store(newToken(value))
	}
}

// drop forgets a token that was refused, unless another has taken its place.
func (s *tokenSource) drop(used *token) {
	if used != nil {
		s.current.CompareAndSwap(used, nil)
	}
}

// fetch joins the Authenticate under way, or starts one. One caller's end
// never fails another's fetch.
func (s *tokenSource) fetch(ctx context.Context) error {
	s.mu.Lock()
	if s.current.Load() != nil {
		s.mu.Unlock()
		return nil
	}
	if s.flight == nil {
		s.flight = s.depart()
	}
	f := s.flight
	f.waiters++
	s.mu.Unlock()

	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		s.leave(f)
		return ctx.Err()
	}
}

// depart needs the lock.
func (s *tokenSource) depart() *flight {
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{cancel: cancel, done: make(chan struct{})}
	login := s.login()
	go func() {
		defer cancel()
		value, err := s.authenticate(ctx, login.Username, login.Password)
		if errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled) {
			value, err = "", nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.current.Store(newToken(value))
		}
		f.err = err
		if s.flight == f {
			s.flight = nil
		}
		close(f.done)
	}()
	return f
}

func (s *tokenSource) leave(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters--; f.waiters == 0 && s.flight == f {
		s.flight = nil
		f.cancel()
	}
}

var _ credentials.PerRPCCredentials = (*tokenSource)(nil)

// GetRequestMetadata implements credentials.PerRPCCredentials: every request
// says which API version its client was built for, and who is asking.
func (s *tokenSource) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	a := attemptFrom(ctx)
	if a != nil && a.anonymous {
		return noToken.metadata, nil
	}
	t := s.current.Load()
	if t == nil {
		t = noToken
	}
	if a != nil {
		a.token.Store(t)
	}
	return t.metadata, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. etcd
// accepts tokens over plaintext, and so did its client always.
func (s *tokenSource) RequireTransportSecurity() bool { return false }
