package clientconfig

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/endpoint"
)

// setting is one thing that a source may set. Errors of set quote nothing that may be secret.
type setting struct {
	name  string
	usage string // as package flag has it
	bool  bool
	set   func(*clientv3.ConfigSpec, string) error
}

// settings are all, those of etcdctl by its names.
var settings = []setting{
	{"endpoints", "`addresses` of etcd, separated by commas or in several flags, or a URL (default " + DefaultEndpoint + ")", false, setEndpoints},
	{"cacert", "`file` with the certificate authorities of the servers", false, into(text, func(s *clientv3.ConfigSpec) *string { return &s.Secure.Cacert })},
	{"cert", "`file` with the certificate of the client", false, into(text, func(s *clientv3.ConfigSpec) *string { return &s.Secure.Cert })},
	{"key", "`file` with the key of the client", false, into(text, func(s *clientv3.ConfigSpec) *string { return &s.Secure.Key })},
	{"insecure-transport", "false: TLS although no file is given (default true)", true, into(truth, func(s *clientv3.ConfigSpec) *bool { return &s.Secure.InsecureTransport })},
	{"insecure-skip-tls-verify", "accept any certificate of a server", true, into(truth, func(s *clientv3.ConfigSpec) *bool { return &s.Secure.InsecureSkipVerify })},
	{"user", "`name` of the user, or name:password", false, into(text, func(s *clientv3.ConfigSpec) *string { return &s.Auth.Username })},
	{"password", "`password` of the user; others cannot read it in " + variable("password"), false, into(text, func(s *clientv3.ConfigSpec) *string { return &s.Auth.Password })},
	{"auth-jwt-token", "`token` in place of user and password", false, into(text, func(s *clientv3.ConfigSpec) *string { return &s.Auth.Token })},
	{"dial-timeout", "`time` to get a token within", false, into(duration, func(s *clientv3.ConfigSpec) *time.Duration { return &s.DialTimeout })},
	{"keepalive-time", "`time` of silence after which a server is pinged (default 10s)", false, into(duration, func(s *clientv3.ConfigSpec) *time.Duration { return &s.KeepAliveTime })},
	{"keepalive-timeout", "`time` in which a server must answer a ping (default 20s)", false, into(duration, func(s *clientv3.ConfigSpec) *time.Duration { return &s.KeepAliveTimeout })},
	{"max-request-bytes", "largest request, in `bytes` (default 2 MiB)", false, into(size, func(s *clientv3.ConfigSpec) *int { return &s.MaxCallSendMsgSize })},
	{"max-recv-bytes", "largest response, in `bytes` (default 2 GiB)", false, into(size, func(s *clientv3.ConfigSpec) *int { return &s.MaxCallRecvMsgSize })},
}

func setEndpoints(spec *clientv3.ConfigSpec, value string) error {
	spec.Endpoints = nil
	for ep := range strings.SplitSeq(value, ",") {
		ep = strings.TrimSpace(ep)
		if ep == "" {
			continue
		}
		if isURL(ep) {
			return errors.New("a URL of etcd stands alone, without other endpoints")
		}
		if _, err := endpoint.Parse(ep); err != nil {
			return err
		}
		spec.Endpoints = append(spec.Endpoints, ep)
	}
	if len(spec.Endpoints) == 0 {
		return errNoEndpoint
	}
	return nil
}

// into returns the function that sets a field to what parse makes of a value.
func into[T any](parse func(string) (T, error), field func(*clientv3.ConfigSpec) *T) func(*clientv3.ConfigSpec, string) error {
	return func(spec *clientv3.ConfigSpec, value string) error {
		v, err := parse(value)
		if err != nil {
			return err
		}
		*field(spec) = v
		return nil
	}
}

func text(value string) (string, error) { return value, nil }

func truth(value string) (bool, error) {
	v, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New(strconv.Quote(value) + " is neither true nor false")
	}
	return v, nil
}

func duration(value string) (time.Duration, error) {
	v, err := time.ParseDuration(value)
	if err != nil || v < 0 {
		return 0, errors.New(strconv.Quote(value) + " is no time such as 5s")
	}
	return v, nil
}

func size(value string) (int, error) {
	v, err := strconv.ParseInt(value, 10, 32)
	if err != nil || v < 0 {
		return 0, errors.New(strconv.Quote(value) + " is no number of bytes")
	}
	return int(v), nil
}
