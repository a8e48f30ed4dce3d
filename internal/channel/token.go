package channel

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// Login is how the user authenticates: with a name and a password, a token (JWT), a token
// source, or not at all.
type Login struct {
	Username, Password string
	Token              string
	// FromSource is set if tokens come from [Config.TokenSource].
	FromSource bool
}

func (l Login) password() bool { return l.Username != "" && l.Password != "" }

// fetches reports whether new tokens can be fetched.
func (l Login) fetches() bool { return l.FromSource || l.password() }

// tokenSettles is how long a member may apply a new token after the one that issued it. A
// refusal of a younger token may only show that the member lags.
const tokenSettles = 10 * time.Second

// token is a credential together with the request metadata that carries it.
type token struct {
	value        string
	login        Login // used to fetch it
	metadata     map[string]string
	fetched      time.Time // zero if the user gave it
	accepted     atomic.Bool
	refusedFresh bool // it was refused within freshToken; guarded by tokenSource.mu
	// refused holds the members that refused it within tokenSettles; nil for none.
	refused atomic.Pointer[tokenRefusals]
}

// tokenRefusals are the refusals of one token, oldest first. They do not change.
type tokenRefusals struct {
	by refusals
	at []time.Time
}

func newToken(value string, login Login) *token {
	t := &token{value: value, login: login}
	if value != "" {
		t.metadata = map[string]string{rpctypes.TokenFieldNameGRPC: value}
	}
	return t
}

var noToken = newToken("", Login{})

// tokenSource holds the token of a client. All calls and streams share it until the
// server refuses it or the login changes. A single fetch replaces it, even if many calls
// fail at the same time.
type tokenSource struct {
	login        func() Login
	authenticate func(ctx context.Context, name, password string) (string, error)
	source       func(ctx context.Context) (string, error) // the user's; nil if there is none
	sourceBusy   chan struct{}                             // full while source is called
	closed       <-chan struct{}                           // closed with the client

	// secured reports whether tokens and passwords must not be sent in plaintext; nil if they may.
	// name returns the name of an endpoint.
	secured func() bool
	name    func(*balancer.Endpoint) string
	// obtained is called when there is a token after a failure to get one.
	obtained func()

	option  grpc.CallOption       // attaches the current token
	current atomic.Pointer[token] // nil when there is none, or it was refused

	mu      sync.Mutex
	pending *tokenFetch // the fetch in progress, if there is one
	failed  bool        // the latest fetch failed
	wrong   refusedLogin
	useless refusedLogin // its tokens are refused as soon as they are fetched
}

// freshToken is the age up to which a refused token is useless, unless a call with it was accepted. Tokens live for a
// second at least.
const freshToken = time.Second

// Backoff after a wrong login, after more than maxTokenRefreshes other refusals in a row, and after as many useless tokens:
// members spend a bcrypt hash on most requests.
const (
	wrongLoginBackoff      = time.Second
	maxWrongLoginBackoff   = time.Minute
	maxUselessTokenBackoff = tokenSettles * 4 / 5
)

// refusedLogin is a login that the cluster refused.
type refusedLogin struct {
	login    Login
	err      error
	failures int
	until    time.Time // no request is made before this time
}

// again returns w after another refusal: the backoff doubles up to longest, with jitter of half of it.
func (w refusedLogin) again(login Login, err error, longest time.Duration) refusedLogin {
	if w.login != login {
		w = refusedLogin{login: login}
	}
	w.err = err
	backoff := min(wrongLoginBackoff<<min(w.failures, 6), longest)
	w.failures++
	w.until = time.Now().Add(backoff/2 + rand.N(backoff/2))
	return w
}

// backsOff reports whether no request is to be made for a login yet.
func (w refusedLogin) backsOff(login Login) bool {
	return w.login == login && time.Now().Before(w.until)
}

func newTokenSource(cfg Config, closed <-chan struct{}) *tokenSource {
	s := &tokenSource{login: cfg.Login, source: cfg.TokenSource, sourceBusy: make(chan struct{}, 1), closed: closed, obtained: func() {}}
	s.option = grpc.PerRPCCredentials(s)
	return s
}

// tokenFetch is a token request with its waiters. It is cancelled when no caller waits
// any more.
type tokenFetch struct {
	login   Login
	waiters int
	cancel  context.CancelFunc
	done    chan struct{}

	// Once done is closed:
	err        error
	superseded bool // the login changed meanwhile, and the token was dropped
}

// isMissing reports whether a token is required and missing, or the current one is another login's.
func (s *tokenSource) isMissing() bool {
	login, t := s.login(), s.current.Load()
	if t == nil {
		return login.Token != "" || login.fetches()
	}
	return t.login != login
}

// ensure fetches a token if one is required and missing, and drops that of another login.
func (s *tokenSource) ensure(ctx context.Context) error {
	for s.isMissing() {
		login := s.login()
		if login.Token != "" || !login.fetches() {
			s.loginChanged()
		} else if superseded, err := s.fetch(ctx, login); !superseded {
			return err
		}
	}
	return nil
}

// renewal is what a call may do after the server refused its token.
type renewal uint8

const (
	// notRenewed: a repetition would be refused too.
	notRenewed renewal = iota
	// renewed: repeat it with another token, or because the refusal does not depend on the
	// token.
	renewed
	// elsewhere: repeat it with the same token, at another member.
	elsewhere
)

// invalidate is called when the server refused the token of an attempt. The next ensure fetches another
// one if that is required.
func (s *tokenSource) invalidate(a *attempt, refusal error) renewal {
	login, used := s.login(), a.usedToken()
	again := false
	switch {
	case used != nil && used.value != "" && errors.Is(rpctypes.Error(refusal), rpctypes.ErrUserEmpty):
		// The member did not read the token, because authentication was off when the request
		// arrived; it was on when the request was applied.
		again = true
	case login.Token != "":
		again = used == nil || used.value != login.Token
	case !login.fetches():
		// A client authenticated by certificate has no token, but it too can get this
		// error while users are being changed.
		again = errors.Is(rpctypes.Error(refusal), rpctypes.ErrAuthOldRevision)
	default:
		return s.drop(a, refusal)
	}
	if again {
		return renewed
	}
	return notRenewed
}

// loginChanged discards the token of the previous login at once. If the user gave a token, that is the next one.
func (s *tokenSource) loginChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		s.pending.cancel() // its waiters go on with the new login
	}
	s.pending, s.wrong, s.useless = nil, refusedLogin{}, refusedLogin{}
	var given *token
	if login := s.login(); login.Token != "" {
		given = newToken(login.Token, login)
	}
	s.current.Store(given)
}

// drop discards the token of a refused attempt, unless it was replaced already, or is new and
// another member may accept it. While all new ones are refused, the latest stays for a while.
func (s *tokenSource) drop(a *attempt, refusal error) renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	used, current, now := a.usedToken(), s.current.Load(), time.Now()
	if used == nil || used != current {
		// A denial is final if the next token gets it too, so that one must not have expired. A stream of the
		// program's own client, which has no attempt, may have carried the current one.
		if current != nil && now.Sub(current.fetched) >= tokenSettles && (a == nil || isDenial(refusal)) {
			s.current.Store(nil)
		}
		return renewed
	}
	used.refusedFresh = used.refusedFresh || now.Sub(used.fetched) < freshToken
	switch {
	// A member that lags knows older revisions only.
	case !errors.Is(rpctypes.Error(refusal), rpctypes.ErrAuthOldRevision) && s.refusedByLocked(used, a):
		return elsewhere
	case s.useless.failures > maxTokenRefreshes && s.useless.backsOff(used.login):
		return renewed // no request yet: the same token
	case used.accepted.Load() || used.login.FromSource || !used.refusedFresh ||
		!errors.Is(rpctypes.Error(refusal), rpctypes.ErrInvalidAuthToken):
		s.useless = refusedLogin{}
	default:
		s.useless = s.useless.again(used.login, refusal, maxUselessTokenBackoff)
	}
	s.current.Store(nil)
	return renewed
}

// isDenial reports whether a refusal says that the user has no permission.
func isDenial(refusal error) bool {
	return errors.Is(rpctypes.Error(refusal), rpctypes.ErrPermissionDenied)
}

// refusedByLocked records that the member of an attempt refused a token, and reports whether to
// try the token at another member. It does not do so if the token is old, if all others refused it
// or cannot be reached, or if the attempt went to a member that had refused the token before,
// because the others serve nothing.
func (s *tokenSource) refusedByLocked(t *token, a *attempt) bool {
	ep, now := a.endpoint(), time.Now()
	if ep == nil || now.Sub(t.fetched) >= tokenSettles {
		return false
	}
	var next tokenRefusals
	if known := t.refused.Load(); known != nil {
		if i := slices.Index(known.by.endpoints, ep); i >= 0 {
			return !a.Began().After(known.at[i])
		}
		next.by.endpoints, next.at = slices.Clone(known.by.endpoints), slices.Clone(known.at)
	}
	next.by.endpoints, next.at = append(next.by.endpoints, ep), append(next.at, now)
	t.refused.Store(&next)
	return !next.by.byAllUsable(ep)
}

// avoid adds the members that refuse a token, because they lag, to the endpoints that an
// attempt avoids, while others serve.
func (s *tokenSource) avoid(a *attempt, t *token) {
	refused := t.refused.Load()
	if refused != nil && time.Since(t.fetched) < tokenSettles && !refused.by.byAllUsable(refused.by.endpoints[0]) {
		a.Avoid = append(slices.Clip(a.Avoid), refused.by.endpoints...)
	}
}

// fetch joins the fetch in progress for the login, or starts one. The end of one caller's
// context never fails another caller's fetch. It reports whether the login changed
// meanwhile.
func (s *tokenSource) fetch(ctx context.Context, login Login) (superseded bool, err error) {
	s.mu.Lock()
	if t, changed := s.current.Load(), s.login() != login; changed || t != nil && t.login == login {
		s.mu.Unlock()
		return changed, nil
	}
	if pause.Closed(s.closed) {
		s.mu.Unlock()
		return false, ErrClosed
	}
	if w := s.wrong; w.backsOff(login) {
		s.mu.Unlock()
		return false, w.err
	}
	if s.pending == nil || s.pending.login != login {
		s.pending = s.startLocked(login)
	}
	f := s.pending
	f.waiters++
	s.mu.Unlock()

	select {
	case <-f.done:
		return f.superseded, f.err
	case <-ctx.Done():
		s.abandon(f)
		return false, ctx.Err()
	case <-s.closed:
		s.abandon(f)
		return false, ErrClosed
	}
}

func (s *tokenSource) startLocked(login Login) *tokenFetch {
	ctx, cancel := context.WithCancel(context.Background())
	f := &tokenFetch{login: login, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		value, err := s.obtain(ctx, login)
		s.mu.Lock()
		defer s.mu.Unlock()
		f.err = err
		if f.superseded = s.pending != f; !f.superseded {
			s.pending = nil
			s.takeLocked(login, value, err)
		}
		close(f.done)
	}()
	return f
}

// takeLocked handles the result of a fetch.
func (s *tokenSource) takeLocked(login Login, value string, err error) {
	switch {
	case err == nil:
		t := newToken(value, login)
		t.fetched = time.Now()
		s.current.Store(t)
		s.wrong = refusedLogin{}
		if s.failed {
			s.obtained()
		}
	case login.FromSource || (retry.Policy{}).Retryable(retry.CodeOf(err)): // the call itself was repeated
	case isWrongLogin(err):
		s.wrong = s.wrong.again(login, err, maxWrongLoginBackoff)
	default:
		s.wrong = s.wrong.again(login, err, maxUselessTokenBackoff)
		if s.wrong.failures <= maxTokenRefreshes {
			s.wrong.until = time.Time{}
		}
	}
	s.failed = err != nil
}

// isWrongLogin reports whether Authenticate failed with a wrong user name or password, or a password
// for a user who has none, which rpctypes does not name.
func isWrongLogin(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrAuthFailed) ||
		status.Convert(err).Message() == "auth: authentication failed, password was given for no password user"
}

// obtain requests a token, which is empty if the cluster needs none.
func (s *tokenSource) obtain(ctx context.Context, login Login) (string, error) {
	if login.FromSource {
		return s.askSource(ctx)
	}
	value, err := s.authenticate(ctx, login.Username, login.Password)
	if errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled) {
		return "", nil
	}
	return value, err
}

// askSource calls the user's source, one call at a time.
func (s *tokenSource) askSource(ctx context.Context) (string, error) {
	select {
	case s.sourceBusy <- struct{}{}:
		defer func() { <-s.sourceBusy }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	value, err := s.source(ctx)
	if err == nil && value == "" {
		err = errEmptyToken
	}
	if err != nil {
		return "", &tokenSourceError{err}
	}
	return value, nil
}

var errEmptyToken = errors.New("it returned an empty token: return an error where there is none")

// tokenSourceError is an error of the user's source. Any status that it wraps describes
// the source, not the call.
type tokenSourceError struct{ err error }

func (e *tokenSourceError) Error() string { return "etcdclient: Config.TokenSource: " + e.err.Error() }

func (e *tokenSourceError) Unwrap() error { return e.err }

// GRPCStatus makes the error transient for streams that are reopened.
func (e *tokenSourceError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, e.Error())
}

func (s *tokenSource) abandon(f *tokenFetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel()
		if s.pending == f {
			s.pending = nil
		}
	}
}

// LoginChanged makes calls that begin from now on use the login that [Config.Login]
// returns now.
func (c *Channel) LoginChanged() {
	c.tokens.loginChanged()
	c.monitor.NotifyImproved() // work that waits because there was no token goes on
}
