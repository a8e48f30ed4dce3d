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
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/endpoint"
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

// Env returns the environment variables of etcdctl as a source: ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, …
// They are read by [Load]. Variables that belong to no setting of a client are ignored.
func Env() Source {
	return Source{func(setting string) (value, origin string) {
		name := variable(setting)
		return os.Getenv(name), name
	}}
}

// variable returns the name of the environment variable that etcdctl has for a flag.
func variable(setting string) string {
	return "ETCDCTL_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// Flags declares a flag for each setting, and returns those that are given as a source. pflag and cobra
// take them over with AddGoFlagSet:
//
//	set := flag.NewFlagSet("", flag.ContinueOnError)
//	flags := clientconfig.Flags(set)
//	cmd.Flags().AddGoFlagSet(set)
func Flags(fs *flag.FlagSet) Source {
	values := make(map[string]*flagValue, len(settings))
	for _, s := range settings {
		values[s.name] = &flagValue{setting: s}
		fs.Var(values[s.name], s.name, s.usage)
	}
	return Source{func(setting string) (value, origin string) {
		return values[setting].value, "--" + setting
	}}
}

// flagValue is the value of a flag as it was given.
type flagValue struct {
	setting setting
	value   string
}

// String returns nothing: a default would outrank the environment.
func (*flagValue) String() string { return "" }

// IsBoolFlag reports whether the flag means true without a value.
func (v *flagValue) IsBoolFlag() bool { return v.setting.bool }

// Set keeps a value that is well-formed. An empty one is as if the flag were not given, but for the
// endpoints: without any the default would be used, which the program did not ask for. Endpoints of
// several flags are joined.
func (v *flagValue) Set(value string) error {
	scratch := clientv3.ConfigSpec{Secure: &clientv3.SecureConfig{}, Auth: &clientv3.AuthConfig{}}
	switch {
	case v.setting.name == "endpoints" && value == "":
		return errNoEndpoint
	case v.setting.name == "endpoints": // Load checks them: package flag quotes what is refused here, and they may have a password
		if v.value != "" {
			value = "," + v.value + "," + value // which is no URL
		}
	case value != "":
		if err := v.setting.set(&scratch, value); err != nil {
			return err
		}
	}
	v.value = value
	return nil
}

// inAuthority are settings that a URL has in front of its parameters.
var inAuthority = []string{"endpoints", "user", "password"}

// defaultPort is that of etcd's clients.
const defaultPort = "2379"

// URL returns a URL as a source:
//
//	etcd://[user[:password]@]host[:port][,host[:port]…][?setting=value[&setting=value…]]
//
// The default port is 2379. With etcds:// in place of etcd:// every connection uses TLS; with etcd://
// those do for which a setting says so. "%" escapes what has a meaning in URLs. Its errors quote nothing of the URL
// but names of parameters, as there may be a password in it.
func URL(raw string) (Source, error) {
	values, err := parseURL(raw)
	if err != nil {
		return Source{}, fmt.Errorf("URL of etcd: %w", err)
	}
	return Source{func(setting string) (value, origin string) {
		if slices.Contains(inAuthority, setting) {
			return values[setting], setting + " of the URL"
		}
		return values[setting], "parameter " + setting + " of the URL"
	}}, nil
}

func isURL(value string) bool {
	return strings.HasPrefix(value, "etcd://") || strings.HasPrefix(value, "etcds://")
}

func parseURL(raw string) (map[string]string, error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	values := map[string]string{}
	switch scheme {
	case "etcd":
	case "etcds":
		values["insecure-transport"] = "false"
	default:
		return nil, errors.New("it begins with neither etcd:// nor etcds://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	rest = strings.TrimSuffix(rest, "/")
	if strings.ContainsAny(rest, "/#") || strings.Contains(query, "#") {
		return nil, errors.New("it can have neither a path nor a fragment; write %2F and %23 in a password")
	}
	if strings.Contains(query, "@") {
		return nil, errors.New("it has an @ after the question mark; write %3F in a password, and %40 in a parameter")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := parseLogin(values, rest[:at]); err != nil {
			return nil, err
		}
		rest = rest[at+1:]
	}
	var err error
	if values["endpoints"], err = parseHosts(rest, scheme == "etcds"); err != nil {
		return nil, err
	}
	return values, parseParameters(values, query)
}

func parseLogin(values map[string]string, login string) error {
	for i, part := range strings.SplitN(login, ":", 2) {
		clear, err := url.PathUnescape(part)
		if err != nil {
			return errors.New("its user or password has a % that escapes nothing; write %25")
		}
		values[[]string{"user", "password"}[i]] = clear
	}
	if strings.Contains(values["user"], ":") {
		return errors.New("its user has a colon")
	}
	return nil
}

// parseHosts returns the endpoints, each with a port. If they are secured, no other source takes them to plaintext.
func parseHosts(hosts string, secured bool) (string, error) {
	var out []string
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return "", errors.New("it names no host, or an empty one")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			bare, ok := strings.CutPrefix(host, "[")
			if ok && strings.HasSuffix(bare, "]") {
				host = strings.TrimSuffix(bare, "]")
			} else if strings.ContainsAny(host, ":[]") {
				return "", errors.New("it has a host that is neither HOST, HOST:PORT nor [IPv6]:PORT")
			}
			host = net.JoinHostPort(host, defaultPort)
		}
		if secured {
			host = (&url.URL{Scheme: "https", Host: host}).String()
		}
		out = append(out, host)
	}
	return strings.Join(out, ","), nil
}

func parseParameters(values map[string]string, query string) error {
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("its parameters are malformed")
	}
	for name, given := range parameters {
		switch {
		case slices.Contains(inAuthority, name):
			return fmt.Errorf("%s is no parameter; it stands before the question mark", name)
		case !slices.ContainsFunc(settings, func(s setting) bool { return s.name == name }):
			return fmt.Errorf("there is no parameter %q", name)
		case len(given) > 1:
			return fmt.Errorf("parameter %s is given %d times", name, len(given))
		case name == "insecure-transport" && values[name] != "":
			return errors.New("parameter insecure-transport contradicts etcds://, or repeats it")
		}
		values[name] = given[0]
	}
	return nil
}

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
