package keepalive

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// What a grpc-go server does to pings, from internal/transport/http2_server.go.
const (
	// maxPingStrikes is how many forbidden pings the server lets pass.
	maxPingStrikes = 2

	// idlePingInterval is how often a client may ping without a call if the server
	// does not permit that.
	idlePingInterval = 2 * time.Hour
)

// allowed is the shortest time between two pings that draws no strike.
func (s Server) allowed(stream bool) time.Duration {
	if !stream && !s.PermitWithoutStream {
		return idlePingInterval
	}
	return cmp.Or(s.MinTime, defaultMinTime)
}

// idleUntilGoAway returns when the server ends a connection on which nothing but the client's
// pings is sent, and how many there were. ok is false if it never does.
//
// The client pings when it has received nothing for Time, and the answer to its ping counts: at the server, two pings are
// never closer than Time, and on a fast network hardly farther. So each ping but the first draws a strike, or none does.
// (Headers, data or trailers that the server sends clear the strikes, and the next ping draws none.)
func idleUntilGoAway(c Client, s Server, stream bool) (after time.Duration, pings int, ok bool) {
	if c.Time == 0 || !stream && !c.PermitWithoutStream || c.Time >= s.allowed(stream) {
		return 0, 0, false
	}
	pings = 1 + maxPingStrikes + 1
	return time.Duration(pings) * c.Time, pings, true
}

// TooManyPingsError means that a server would close the connections of a client because
// of its pings, with GOAWAY ENHANCE_YOUR_CALM, too_many_pings.
type TooManyPingsError struct {
	// Client and Server are the incompatible ends.
	Client Client
	Server Server

	// Stream says on which connections it happens: on those with a call that is quiet,
	// such as a stream without messages, or else on those without any call.
	Stream bool

	// Allowed is the time that the server wants between two pings there.
	Allowed time.Duration

	// Pings is the number of the ping that the server answers with the GOAWAY, and After
	// is when: the time since the connection was made, if nothing else is sent on it.
	// After a call it may come one ping sooner.
	Pings int
	After time.Duration
}

// Error explains the reason and how to fix it.
func (e *TooManyPingsError) Error() string {
	where, costs := "while no call is under way", ""
	if e.Stream {
		where, costs = "while a call is under way", " and the call fails with Unavailable"
	}
	text := fmt.Sprintf("keepalive: too_many_pings: %s the client pings every %v (Client.Time) and the server allows a ping every %v (%s): "+
		"it ends the connection at the %dth ping in a row, %v after the last traffic%s",
		where, e.Client.Time, e.Allowed, e.rule(), e.Pings, e.After, costs)
	return text + "; " + e.advice()
}

func (e *TooManyPingsError) rule() string {
	if e.Stream || e.Server.PermitWithoutStream {
		if e.Server.MinTime == 0 {
			return "grpc's default Server.MinTime"
		}
		return "Server.MinTime"
	}
	return "because Server.PermitWithoutStream is false"
}

func (e *TooManyPingsError) advice() string {
	if e.Stream || e.Server.PermitWithoutStream {
		return fmt.Sprintf("set Client.Time to at least %v, or Server.MinTime to at most %v", e.Allowed, e.Client.Time)
	}
	least := max(cmp.Or(e.Server.MinTime, defaultMinTime), e.Client.Time)
	if least == e.Client.Time {
		return "set Client.PermitWithoutStream to false, or Server.PermitWithoutStream to true"
	}
	return fmt.Sprintf("set Client.PermitWithoutStream to false and Client.Time to at least %v, or Server.PermitWithoutStream to true and Server.MinTime to at most %v",
		least, e.Client.Time)
}

// checkPings returns a TooManyPingsError for ends that pass their own checks.
//
// Two connections are the worst there are: one without a call, and one with a call on
// which the server sends nothing. Whatever else happens on a connection makes
// pings later or clears strikes, so that mixtures of the two draw a GOAWAY only if
// one of them does.
func checkPings(c Client, s Server) error {
	for _, stream := range []bool{false, true} {
		after, pings, tooMany := idleUntilGoAway(c, s, stream)
		if !tooMany {
			continue
		}
		return &TooManyPingsError{
			Client: c, Server: s, Stream: stream,
			Allowed: s.allowed(stream), Pings: pings, After: after,
		}
	}
	return nil
}

const (
	// retryPolicy says how calls are repeated. gRPC allows five attempts at most; with these the fifth
	// comes about 3.3 s after the first, not counting the time in which there is no
	// server at all, which attempts do not use up.
	retryPolicy = `{"maxAttempts":5,"initialBackoff":"0.1s","maxBackoff":"2s","backoffMultiplier":3,"retryableStatusCodes":["UNAVAILABLE"]}`

	// throttling stops repetitions while the failed calls of a channel exceed a tenth of the successful
	// ones by 500: they would overload a server in trouble. gRPC allows 1000 tokens at most, and
	// repeats a call while more than half are left.
	throttling = `{"maxTokens":1000,"tokenRatio":0.1}`

	defaultCallTimeout = 30 * time.Second
)

// messageHeader is how many bytes gRPC puts before each message, and keeps with it.
const messageHeader = 5

// How a connection is made again.
const (
	reconnectDelay    = 100 * time.Millisecond
	maxReconnectDelay = 3 * time.Second
	minConnectTimeout = 5 * time.Second
)

// Calls configures how calls behave when their server restarts. It generates an ordinary
// gRPC service config, which any channel and any policy can use.
//
// A method is written as in generated code, "/pkg.Service/Method"; the first slash may
// be missing. "/pkg.Service/" stands for all methods of a service but those that
// are named by themselves, here or in Base. Name unary methods only: Timeout would end a stream.
// What is not named is left to gRPC: it fails at once while no connection is
// there.
type Calls struct {
	// Repeatable are methods that may be executed twice: reads, and writes that the
	// server recognizes. They wait while no server can be reached and are sent again, to
	// another server if there is one, when they fail with Unavailable: up to five
	// attempts. They fail only if the server is unreachable for longer than their deadline.
	//
	// A call whose context is canceled or has expired is not sent again, nor one that
	// fails with any other code. Nor does gRPC send again a call of which it has received the
	// header of the answer: if the connection breaks between that and the end, it fails with Unavailable.
	Repeatable []string

	// Once are methods that must not be executed twice. They wait for a connection too.
	// If the connection breaks during a call, the call fails with Unavailable, and it is
	// unknown whether it was executed.
	Once []string

	// Timeout is the deadline of named calls that bring none, or a later one. 0: 30 s.
	// Without a deadline they would wait forever for a server that does not return.
	Timeout time.Duration

	// Base is a service config in JSON with everything else: loadBalancingConfig, for
	// example, or methodConfig for other methods. A method that both name is an error;
	// retryThrottling is that of Base if it has one. Empty: {}.
	Base string

	// MaxRequest is the longest request that is kept to be sent again, in bytes; a longer
	// one is sent once. 0: 4 MiB, which is the longest that a gRPC server accepts by
	// default (gRPC's own default here is 256 KiB). At most 64 MiB.
	MaxRequest int
}

// DialOptions returns what the client gives to grpc.NewClient: the service config as a
// default, MaxRequest, and how to connect again after a loss (after 0.1 s, then in
// steps up to 3 s; gRPC's default grows to 2 min). A resolver that brings a service
// config of its own, as xDS does, replaces the default.
func (c Calls) DialOptions() ([]grpc.DialOption, error) {
	config, err := c.ServiceConfig()
	if err != nil {
		return nil, err
	}
	keep := cmp.Or(c.MaxRequest, defaultMessageSize)
	return []grpc.DialOption{
		grpc.WithDefaultServiceConfig(config),
		grpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(keep + messageHeader)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectDelay, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnectDelay},
			MinConnectTimeout: minConnectTimeout,
		}),
	}, nil
}

type methodConfig struct {
	Names        []methodName    `json:"name"`
	WaitForReady bool            `json:"waitForReady"`
	Timeout      string          `json:"timeout"`
	Retry        json.RawMessage `json:"retryPolicy,omitempty"`
}

type methodName struct {
	Service string `json:"service"`
	Method  string `json:"method,omitempty"`
}

// ServiceConfig returns the service config as JSON, or an error that names the method
// or the field which is wrong.
func (c Calls) ServiceConfig() (string, error) {
	repeatable, once, err := c.names()
	if err != nil {
		return "", err
	}
	config, methods, err := c.base(append(repeatable, once...))
	if err != nil {
		return "", err
	}
	timeout := seconds(cmp.Or(c.Timeout, defaultCallTimeout))
	if len(repeatable) > 0 {
		methods = append(methods, methodConfig{Names: repeatable, WaitForReady: true, Timeout: timeout, Retry: json.RawMessage(retryPolicy)})
		if config["retryThrottling"] == nil {
			config["retryThrottling"] = json.RawMessage(throttling)
		}
	}
	if len(once) > 0 {
		methods = append(methods, methodConfig{Names: once, WaitForReady: true, Timeout: timeout})
	}
	config["methodConfig"] = methods
	text, err := json.Marshal(config)
	return string(text), err
}

// base returns the service config that the calls are added to, and its methodConfig.
func (c Calls) base(named []methodName) (config map[string]any, others []any, err error) {
	config = make(map[string]any)
	if c.Base == "" {
		return config, nil, nil
	}
	var methods struct {
		Configs []struct {
			Names []methodName `json:"name"`
		} `json:"methodConfig"`
	}
	err = errors.Join(json.Unmarshal([]byte(c.Base), &methods), json.Unmarshal([]byte(c.Base), &config))
	if err == nil && config == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("keepalive: Calls.Base is no service config: %w", err)
	}
	for _, m := range methods.Configs {
		for _, name := range m.Names {
			if slices.Contains(named, name) {
				return nil, nil, fmt.Errorf("keepalive: Calls.Base has a methodConfig for %q too: name the method in one place", "/"+name.Service+"/"+name.Method)
			}
		}
	}
	others, _ = config["methodConfig"].([]any)
	return config, others, nil
}

// names returns the methods of both lists, and everything that is wrong with c.
func (c Calls) names() (repeatable, once []methodName, err error) {
	faults := []error{within("Calls.Timeout", c.Timeout, 1), messageSize("Calls.MaxRequest", c.MaxRequest)}
	if len(c.Repeatable)+len(c.Once) == 0 {
		faults = append(faults, errors.New("keepalive: Calls: no method is named: put those that may be executed twice into Repeatable, others into Once"))
	}
	seen := make(map[methodName]string)
	read := func(list string, methods []string) (names []methodName) {
		for i, m := range methods {
			field := fmt.Sprintf("Calls.%s[%d]", list, i)
			name, err := parseMethod(m)
			if first, ok := seen[name]; err == nil && ok {
				err = fmt.Errorf("%q is named already by %s", m, first)
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("keepalive: %s: %w", field, err))
				continue
			}
			seen[name] = field
			names = append(names, name)
		}
		return names
	}
	repeatable = read("Repeatable", c.Repeatable)
	once = read("Once", c.Once)
	return repeatable, once, errors.Join(faults...)
}

func parseMethod(m string) (methodName, error) {
	service, method, ok := strings.Cut(strings.TrimPrefix(m, "/"), "/")
	if !ok || service == "" || strings.ContainsAny(method, "/* ") {
		return methodName{}, fmt.Errorf(`%q; write "/pkg.Service/Method", or "/pkg.Service/" for all methods of a service`, m)
	}
	return methodName{Service: service, Method: method}, nil
}

// seconds writes a positive duration as service configs do, exactly.
func seconds(d time.Duration) string {
	text := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "s"
}
