package keepalive

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field is a setting of a pair in its text form. Exactly one of the pointers is
// set.
type field struct {
	key      string
	duration *time.Duration
	flag     *bool
}

func (p *Pair) fields() []field {
	return []field{
		{key: "client.time", duration: &p.Client.Time},
		{key: "client.timeout", duration: &p.Client.Timeout},
		{key: "client.permit_without_stream", flag: &p.Client.PermitWithoutStream},
		{key: "server.min_time", duration: &p.Server.MinTime},
		{key: "server.permit_without_stream", flag: &p.Server.PermitWithoutStream},
		{key: "server.time", duration: &p.Server.Time},
		{key: "server.timeout", duration: &p.Server.Timeout},
		{key: "server.max_connection_idle", duration: &p.Server.MaxConnectionIdle},
		{key: "server.max_connection_age", duration: &p.Server.MaxConnectionAge},
		{key: "server.max_connection_age_grace", duration: &p.Server.MaxConnectionAgeGrace},
		{key: "idle_timeout", duration: &p.IdleTimeout},
		{key: "longest_call", duration: &p.LongestCall},
	}
}

// String returns the pair in the form that [Parse] reads, for logs and flags:
// "client.time=10s server.min_time=5s". Settings that have grpc's default are left
// out; the zero Pair is "default".
func (p Pair) String() string {
	var words []string
	for _, f := range p.fields() {
		switch {
		case f.flag != nil && *f.flag:
			words = append(words, f.key+"=true")
		case f.duration != nil && *f.duration != 0:
			words = append(words, f.key+"="+f.duration.String())
		}
	}
	if len(words) == 0 {
		return defaultName
	}
	return strings.Join(words, " ")
}

// defaultName stands for the zero Pair.
const defaultName = "default"

// Parse reads a pair from words that are separated by blanks: the name of a preset
// (datacenter, load-balancer, stock, etcd) or "default", which may come first only and
// may be left out, then settings that replace those of the preset, such as
//
//	load-balancer server.max_connection_age=1h longest_call=30s
//
// Durations have Go's form. The pair has passed [Pair.Validate].
func Parse(text string) (Pair, error) {
	var p Pair
	words := strings.Fields(text)
	if len(words) == 0 {
		return p, fmt.Errorf("keepalive: empty text: write %q for gRPC's defaults, or one of %s", defaultName, presetNames())
	}
	if !strings.Contains(words[0], "=") {
		var err error
		if p, err = named(words[0]); err != nil {
			return Pair{}, err
		}
		words = words[1:]
	}
	seen := make(map[string]bool)
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if seen[key] {
			return Pair{}, fmt.Errorf("keepalive: %q: %s is there twice", text, key)
		}
		seen[key] = true
		if err := p.set(key, value); err != nil {
			return Pair{}, err
		}
	}
	if err := p.Validate(); err != nil {
		return Pair{}, err
	}
	return p, nil
}

func named(name string) (Pair, error) {
	if name == defaultName {
		return Pair{}, nil
	}
	for _, p := range presets {
		if p.name == name {
			return p.preset.pair, nil
		}
	}
	return Pair{}, fmt.Errorf("keepalive: no preset %q: write one of %s, or settings like client.time=10s", name, presetNames())
}

func presetNames() string {
	text := defaultName
	for _, p := range presets {
		text += ", " + p.name
	}
	return text
}

func (p *Pair) set(key, value string) error {
	fields := p.fields()
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
	if i < 0 {
		keys := make([]string, len(fields))
		for j, f := range fields {
			keys[j] = f.key
		}
		return fmt.Errorf("keepalive: no setting %q: it may be %s", key, strings.Join(keys, ", "))
	}
	if f := fields[i]; f.flag != nil {
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("keepalive: %s: %q; it must be true or false", key, value)
		}
		*f.flag = b
		return nil
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return fmt.Errorf("keepalive: %s: %q; it must be a duration like 10s", key, value)
	}
	*fields[i].duration = d
	return nil
}

// MarshalText returns what String does.
func (p Pair) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText does what [Parse] does, so that a pair can stand in JSON, in YAML and,
// with flag.TextVar, on the command line.
func (p *Pair) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}
