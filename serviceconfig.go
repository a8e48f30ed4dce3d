package quorate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/keepalive"
)

// The keys of a service config that gRPC-Go honours. It ignores others without a word.
var (
	configKeys = []string{"healthCheckConfig", "methodConfig", "retryThrottling"}
	methodKeys = []string{"maxRequestMessageBytes", "maxResponseMessageBytes", "name", "retryPolicy", "timeout", "waitForReady"}
)

// checkBase returns an error that names what would be lost of a service config with the calls.
func checkBase(config map[string]any, calls keepalive.Calls) error {
	if config["loadBalancingConfig"] != nil || config["loadBalancingPolicy"] != nil {
		return errors.New("quorate: Channel.Calls.Base chooses a policy: use Channel.Policy")
	}
	if err := checkKeys("Channel.Calls.Base", config, configKeys); err != nil {
		return err
	}
	methods, _ := config["methodConfig"].([]any)
	for i, m := range methods {
		method, _ := m.(map[string]any)
		if method["hedgingPolicy"] != nil {
			return fmt.Errorf("quorate: Channel.Calls.Base: methodConfig[%d]: gRPC-Go has no \"hedgingPolicy\": name the methods in Channel.Calls.Repeatable, which hedges", i)
		}
		where := fmt.Sprintf("Channel.Calls.Base: methodConfig[%d]", i)
		if err := errors.Join(checkKeys(where, method, methodKeys), checkCovered(where, method, calls)); err != nil {
			return err
		}
	}
	return nil
}

// checkCovered returns an error for a limit of all methods, or of a service, that would not count for a method which
// the calls name: gRPC uses the most specific method config alone.
func checkCovered(where string, method map[string]any, calls keepalive.Calls) error {
	limits := map[string]string{
		"maxRequestMessageBytes":  "use grpc.MaxCallSendMsgSize in grpc.WithDefaultCallOptions",
		"maxResponseMessageBytes": "use grpc.MaxCallRecvMsgSize in grpc.WithDefaultCallOptions",
	}
	if calls.Timeout == 0 {
		limits["timeout"] = "set Channel.Calls.Timeout"
	}
	names, _ := method["name"].([]any)
	for _, n := range names {
		name, _ := n.(map[string]any)
		covers := ""
		if service, _ := name["service"].(string); service != "" {
			covers = "/" + service + "/"
		}
		for named := range set(slices.Concat(calls.Repeatable, calls.Once)) {
			if name["method"] != nil || named == covers || !strings.HasPrefix(named, covers) {
				continue
			}
			for _, limit := range slices.Sorted(maps.Keys(limits)) {
				if method[limit] != nil {
					return fmt.Errorf("quorate: %s: %q would not count for %s, which Channel.Calls names: %s", where, limit, named, limits[limit])
				}
			}
		}
	}
	return nil
}

// methodsOf returns the methods that a service config names by themselves. gRPC repeats them as their method config says.
func methodsOf(config string) (methods []string) {
	var parsed struct {
		MethodConfig []struct {
			Name []struct{ Service, Method string }
		}
	}
	_ = json.Unmarshal([]byte(config), &parsed) // it was made from a valid one
	for _, m := range parsed.MethodConfig {
		for _, name := range m.Name {
			methods = append(methods, name.Service+"/"+name.Method)
		}
	}
	return methods
}

func checkKeys(where string, object map[string]any, known []string) error {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, key) {
			return fmt.Errorf("quorate: %s: unknown key %q; gRPC-Go honours %q", where, key, known)
		}
	}
	return nil
}
