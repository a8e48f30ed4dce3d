package retry

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

type serviceConfigJSON struct {
	MethodConfig      []methodConfigJSON `json:"methodConfig"`
	RetryThrottling   Throttling         `json:"retryThrottling"`
	HedgingThrottling Throttling         `json:"hedgingThrottling"`
}

type methodConfigJSON struct {
	Name          []nameJSON   `json:"name"`
	RetryPolicy   *policyJSON  `json:"retryPolicy"`
	HedgingPolicy *hedgingJSON `json:"hedgingPolicy"`
}

type nameJSON struct {
	Service string `json:"service"`
	Method  string `json:"method"`
}

type policyJSON struct {
	MaxAttempts          *int               `json:"maxAttempts"`
	InitialBackoff       *string            `json:"initialBackoff"`
	MaxBackoff           *string            `json:"maxBackoff"`
	BackoffMultiplier    *float64           `json:"backoffMultiplier"`
	RetryableStatusCodes *[]json.RawMessage `json:"retryableStatusCodes"`
}

// ParseServiceConfig reads retryPolicy, hedgingPolicy and retryThrottling from a
// gRPC service config in JSON, as documented in gRPC's service_config.proto, and
// beside them hedgingThrottling, which has the fields of retryThrottling:
//
//	{
//	  "methodConfig": [{
//	    "name": [{"service": "etcdserverpb.KV"}],
//	    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.025s", "maxBackoff": "2s",
//	      "backoffMultiplier": 1.6, "retryableStatusCodes": ["UNAVAILABLE"]},
//	    "hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "0.050s", "nonFatalStatusCodes": ["INTERNAL"]}
//	  }],
//	  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
//	  "hedgingThrottling": {"maxTokens": 20, "tokenRatio": 0.05}
//	}
//
// A name without method means the whole service, a name without either every method. As
// in gRPC, only the most specific methodConfig applies to a method; fields that it, or
// the whole config, omits have the values of [DefaultConfig]. Unlike in gRPC, maxAttempts
// is not limited to 5.
//
// Other fields belong to gRPC and are ignored. An error names the field and its allowed
// values.
func ParseServiceConfig(js string) (*Config, error) {
	c := DefaultConfig()
	c.byName = make(map[string]policies)
	if err := c.parse([]byte(js)); err != nil {
		return nil, fmt.Errorf("service config: %w", err)
	}
	return c, nil
}

func (c *Config) parse(js []byte) error {
	raw := serviceConfigJSON{RetryThrottling: c.Throttling, HedgingThrottling: c.HedgingThrottling}
	if err := json.Unmarshal(js, &raw); err != nil {
		return err
	}
	seen := make(map[nameJSON]string)
	for i, m := range raw.MethodConfig {
		field := fmt.Sprintf("methodConfig[%d]", i)
		p, err := m.policies(field)
		if err != nil {
			return err
		}
		for j, name := range m.Name {
			if err := c.assign(name, p, fmt.Sprintf("%s.name[%d]", field, j), seen); err != nil {
				return err
			}
		}
	}
	c.Throttling, c.HedgingThrottling = raw.RetryThrottling, raw.HedgingThrottling
	if err := c.Throttling.validate("retryThrottling"); err != nil {
		return err
	}
	return c.HedgingThrottling.validate("hedgingThrottling")
}

func (m *methodConfigJSON) policies(field string) (p policies, err error) {
	if p.retry, err = m.RetryPolicy.parse(field + ".retryPolicy"); err != nil {
		return p, err
	}
	p.hedging, err = m.HedgingPolicy.parse(field + ".hedgingPolicy")
	return p, err
}

// assign sets the policies of a name. Each name may occur in one methodConfig only.
func (c *Config) assign(name nameJSON, p policies, field string, seen map[nameJSON]string) error {
	if name.Service == "" && name.Method != "" {
		return fmt.Errorf("%s: method %q has no service; write both, or a service alone, or neither for the default", field, name.Method)
	}
	if first, ok := seen[name]; ok {
		return fmt.Errorf("%s: service %q, method %q is already named by %s; each name may occur once", field, name.Service, name.Method, first)
	}
	seen[name] = field
	if name.Service == "" {
		c.Default, c.Hedging = p.retry, p.hedging
	} else {
		c.byName[name.Service+"/"+name.Method] = p
	}
	return nil
}

func (j *policyJSON) parse(field string) (Policy, error) {
	p := clonePolicy(defaultPolicy)
	if j == nil {
		return p, nil
	}
	if j.MaxAttempts != nil {
		if p.MaxAttempts = *j.MaxAttempts; p.MaxAttempts < 2 {
			return p, fmt.Errorf("%s.maxAttempts: %d; it must be 2 or more, or be left out for no limit but the caller's context", field, p.MaxAttempts)
		}
	}
	if err := parseBackoff(&p.InitialBackoff, j.InitialBackoff, field+".initialBackoff"); err != nil {
		return p, err
	}
	if err := parseBackoff(&p.MaxBackoff, j.MaxBackoff, field+".maxBackoff"); err != nil {
		return p, err
	}
	if j.BackoffMultiplier != nil {
		if p.BackoffMultiplier = *j.BackoffMultiplier; p.BackoffMultiplier <= 0 {
			return p, fmt.Errorf("%s.backoffMultiplier: %v; it must be greater than 0", field, p.BackoffMultiplier)
		}
	}
	if j.RetryableStatusCodes == nil {
		return p, nil
	}
	var err error
	p.RetryableStatusCodes, err = parseCodes(*j.RetryableStatusCodes, field+".retryableStatusCodes")
	return p, err
}

// protoDuration is the JSON form of google.protobuf.Duration.
var protoDuration = regexp.MustCompile(`^-?[0-9]+(\.[0-9]{1,9})?s$`)

func parseBackoff(into *time.Duration, text *string, field string) error {
	if text == nil {
		return nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil || !protoDuration.MatchString(*text) || d <= 0 {
		return fmt.Errorf(`%s: %q; it must be a positive number of seconds with at most nine decimals, like "0.025s"`, field, *text)
	}
	*into = d
	return nil
}

func parseCodes(raw []json.RawMessage, field string) ([]codes.Code, error) {
	if len(raw) == 0 {
		return nil, fmt.Errorf(`%s: empty; name at least one code, like "UNAVAILABLE", or leave the field out for the default`, field)
	}
	parsed := make([]codes.Code, len(raw))
	for i, r := range raw {
		code, ok := parseCode(r)
		if !ok {
			return nil, fmt.Errorf(`%s[%d]: %s; it must be the name of a gRPC status code other than OK, like "UNAVAILABLE", or its number, 1 to 16`, field, i, r)
		}
		parsed[i] = code
	}
	return parsed, nil
}

// parseCode accepts the same codes as gRPC, and also CANCELED, in any case.
func parseCode(raw json.RawMessage) (codes.Code, bool) {
	text := strings.ToUpper(string(raw))
	if text == `"CANCELED"` {
		return codes.Canceled, true
	}
	var code codes.Code
	if err := code.UnmarshalJSON([]byte(text)); err != nil || code == codes.OK {
		return 0, false
	}
	return code, true
}

func (t Throttling) validate(field string) error {
	switch {
	case t.MaxTokens <= 0 || t.MaxTokens > maxTokensLimit:
		return fmt.Errorf("%s.maxTokens: %v; it must be greater than 0 and at most %d", field, t.MaxTokens, maxTokensLimit)
	case t.TokenRatio <= 0:
		return fmt.Errorf("%s.tokenRatio: %v; it must be greater than 0", field, t.TokenRatio)
	}
	return nil
}
