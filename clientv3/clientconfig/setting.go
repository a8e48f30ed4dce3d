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
	{"cacert", "`file` with the certificate authorities of the servers", false, text(func(s *clientv3.ConfigSpec) *string { return &s.Secure.Cacert })},
	{"cert", "`file` with the certificate of the client", false, text(func(s *clientv3.ConfigSpec) *string { return &s.Secure.Cert })},
	{"key", "`file` with the key of the client", false, text(func(s *clientv3.ConfigSpec) *string { return &s.Secure.Key })},
	{"insecure-transport", "false: TLS although no file is given (default true)", true, truth(func(s *clientv3.ConfigSpec) *bool { return &s.Secure.InsecureTransport })},
	{"insecure-skip-tls-verify", "accept any certificate of a server", true, truth(func(s *clientv3.ConfigSpec) *bool { return &s.Secure.InsecureSkipVerify })},
	{"user", "`name` of the user, or name:password", false, text(func(s *clientv3.ConfigSpec) *string { return &s.Auth.Username })},
	{"password", "`password` of the user; others cannot read it in " + variable("password"), false, text(func(s *clientv3.ConfigSpec) *string { return &s.Auth.Password })},
	{"auth-jwt-token", "`token` in place of user and password", false, text(func(s *clientv3.ConfigSpec) *string { return &s.Auth.Token })},
	{"dial-timeout", "`time` to get a token within", false, duration(func(s *clientv3.ConfigSpec) *time.Duration { return &s.DialTimeout })},
	{"keepalive-time", "`time` of silence after which a server is pinged (default 10s)", false, duration(func(s *clientv3.ConfigSpec) *time.Duration { return &s.KeepAliveTime })},
	{"keepalive-timeout", "`time` in which a server must answer a ping (default 20s)", false, duration(func(s *clientv3.ConfigSpec) *time.Duration { return &s.KeepAliveTimeout })},
	{"max-request-bytes", "largest request, in `bytes` (default 2 MiB)", false, size(func(s *clientv3.ConfigSpec) *int { return &s.MaxCallSendMsgSize })},
	{"max-recv-bytes", "largest response, in `bytes` (default 2 GiB)", false, size(func(s *clientv3.ConfigSpec) *int { return &s.MaxCallRecvMsgSize })},
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

func text(field func(*clientv3.ConfigSpec) *string) func(*clientv3.ConfigSpec, string) error {
	return func(spec *clientv3.ConfigSpec, value string) error {
		*field(spec) = value
		return nil
	}
}

func truth(field func(*clientv3.ConfigSpec) *bool) func(*clientv3.ConfigSpec, string) error {
	return func(spec *clientv3.ConfigSpec, value string) error {
		v, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New(strconv.Quote(value) + " is neither true nor false")
		}
		*field(spec) = v
		return nil
	}
}

func duration(field func(*clientv3.ConfigSpec) *time.Duration) func(*clientv3.ConfigSpec, string) error {
	return func(spec *clientv3.ConfigSpec, value string) error {
		v, err := time.ParseDuration(value)
		if err != nil || v < 0 {
			return errors.New(strconv.Quote(value) + " is no time such as 5s")
		}
		*field(spec) = v
		return nil
	}
}

func size(field func(*clientv3.ConfigSpec) *int) func(*clientv3.ConfigSpec, string) error {
	return func(spec *clientv3.ConfigSpec, value string) error {
		v, err := strconv.ParseInt(value, 10, 32)
		if err != nil || v < 0 {
			return errors.New(strconv.Quote(value) + " is no number of bytes")
		}
		*field(spec) = int(v)
		return nil
	}
}
