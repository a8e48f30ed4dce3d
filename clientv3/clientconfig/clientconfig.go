// Package clientconfig makes the configuration of a client from flags, from the environment
// variables of etcdctl, and from a URL.
//
// [Load] takes them in order of precedence. The order of etcdctl is flags, then the environment,
// then what the program has of its own:
//
//	flags := clientconfig.Flags(flag.CommandLine)
//	flag.Parse()
//	url, err := clientconfig.URL("etcds://shop@10.0.0.1,10.0.0.2,10.0.0.3?cacert=/etc/etcd/ca.pem")
//	…
//	cfg, err := clientconfig.Load(flags, clientconfig.Env(), url)
//
// A setting has one name: --dial-timeout is the flag, ETCDCTL_DIAL_TIMEOUT the variable, and
// ?dial-timeout= the parameter of a URL.
//
//	endpoints                 addresses, separated by commas or in several flags (default 127.0.0.1:2379), or a URL
//	cacert                    file with the certificate authorities of the servers
//	cert, key                 files with the certificate of the client and its key
//	insecure-transport        false: TLS although none of these files is given (default true)
//	insecure-skip-tls-verify  true: any certificate of a server is accepted
//	user                      name, or name:password
//	password                  password, unless it is part of user
//	auth-jwt-token            token in place of user and password
//	dial-timeout              bound of what clientv3.New does, such as 5s
//	keepalive-time            silence after which gRPC pings a server
//	keepalive-timeout         how long the answer may take
//	max-request-bytes         bound of a request
//	max-recv-bytes            bound of a response
//
// Settings that are not set, or empty, have the default of [clientv3.Config]. Errors name the flag, the
// variable or the parameter; they contain no passwords or tokens. The files are read again when they
// change, as with [clientv3.NewClientConfig]. For tokens that rotate, set Config.TokenSource.
package clientconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/clientv3"
)

// DefaultEndpoint is the endpoint of a client whose sources name none.
const DefaultEndpoint = "127.0.0.1:2379"

// Source gives values of settings. The zero value has none. [Flags], [Env] and [URL] make one.
type Source struct {
	// lookup returns a value, and the name by which the user knows where it is from.
	lookup func(setting string) (value, origin string)
}

// FromEnv makes a configuration from the environment alone.
func FromEnv() (clientv3.Config, error) { return Load(Env()) }

// Load makes a configuration. A setting is taken from the first source that has it. A user in one
// source outranks a token in a later one, and a token a user; in the same source they are an error. A
// password from a source that names another user is not used.
//
// The endpoints of a source may be one URL, as [URL] takes it. Settings of the URL rank below those of its source.
func Load(sources ...Source) (clientv3.Config, error) {
	sources, err := withURLs(sources)
	if err != nil {
		return clientv3.Config{}, err
	}
	l := loader{origins: map[string]string{}, ranks: map[string]int{}}
	l.spec.Endpoints = []string{DefaultEndpoint}
	l.spec.Secure = &clientv3.SecureConfig{InsecureTransport: true}
	l.spec.Auth = &clientv3.AuthConfig{}
	for _, s := range settings {
		if err := l.load(s, sources); err != nil {
			return clientv3.Config{}, err
		}
	}
	if err := l.settleLogin(sources); err != nil {
		return clientv3.Config{}, err
	}
	cfg, err := clientv3.NewClientConfig(&l.spec, nil)
	if err != nil {
		return clientv3.Config{}, fmt.Errorf("%s: %w", l.names("cacert", "cert", "key"), err)
	}
	return *cfg, nil
}

// withURLs adds behind each source the URL that it has for its endpoints.
func withURLs(sources []Source) ([]Source, error) {
	var out []Source
	for _, s := range sources {
		out = append(out, s)
		if s.lookup == nil {
			continue
		}
		if value, origin := s.lookup("endpoints"); isURL(value) {
			url, err := URL(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", origin, err)
			}
			out = append(out, url)
		}
	}
	return out, nil
}

// loader is a configuration that is being made.
type loader struct {
	spec    clientv3.ConfigSpec
	origins map[string]string // setting → origin
	ranks   map[string]int    // setting → index of its source
}

func (l *loader) load(s setting, sources []Source) error {
	for rank, source := range sources {
		if source.lookup == nil {
			continue
		}
		value, origin := source.lookup(s.name)
		if value == "" || s.name == "endpoints" && isURL(value) {
			continue
		}
		if err := s.set(&l.spec, value); err != nil {
			return fmt.Errorf("%s: %w", origin, err)
		}
		l.origins[s.name], l.ranks[s.name] = origin, rank
		return nil
	}
	return nil
}

// settleLogin decides between a user and a token, and finds the password.
func (l *loader) settleLogin(sources []Source) error {
	auth := l.spec.Auth
	if auth.Username != "" && auth.Token != "" {
		switch user, token := l.ranks["user"], l.ranks["auth-jwt-token"]; {
		case user == token:
			return fmt.Errorf("%s and %s: a client has a user or a token, not both", l.origins["user"], l.origins["auth-jwt-token"])
		case user < token:
			auth.Token = ""
		default:
			auth.Username = ""
		}
	}
	if auth.Username == "" {
		auth.Password = ""
		return nil
	}
	if name, password, ok := strings.Cut(auth.Username, ":"); ok {
		auth.Username, auth.Password = name, password
	} else if rank, ok := l.ranks["password"]; ok {
		other, _ := sources[rank].lookup("user")
		if other, _, _ = strings.Cut(other, ":"); other != "" && other != auth.Username {
			auth.Password = "" // that of another user
		}
	}
	if auth.Username == "" || auth.Password == "" {
		return fmt.Errorf("%s needs a name and a password; the password may also be in %s", l.origins["user"], variable("password"))
	}
	return nil
}

// names returns the origins of those settings that are set.
func (l *loader) names(settings ...string) string {
	var names []string
	for _, s := range settings {
		if origin, ok := l.origins[s]; ok {
			names = append(names, origin)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

var errNoEndpoint = errors.New("it names no endpoint")
