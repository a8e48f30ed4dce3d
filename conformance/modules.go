package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

const (
	clientModule  = "go.etcd.io/etcd/client/v3"
	clientVersion = "v3.7.3"
	quorateModule = "github.com/quorate/quorate"
	// shim and checkout are what go.mod puts in the place of the client and of Quorate.
	shim     = "../compat/clientv3"
	checkout = "../"
)

// module is a module as "go list -m -json" shows it.
type module struct {
	Path    string
	Version string
	Dir     string // of its source
	Replace *module
}

// modules returns the modules with the given paths, as the suite is compiled with
// them.
func (b build) modules(ctx context.Context, paths ...string) (map[string]module, error) {
	args := append([]string{"list", "-m", "-json"}, b.flags...)
	cmd := b.goCommand(ctx, append(args, paths...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run it in its own directory: go list -m: %w\n%s", err, stderr.Bytes())
	}
	found := map[string]module{}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var m module
		if err := dec.Decode(&m); err != nil {
			return nil, fmt.Errorf("output of go list -m -json: %w", err)
		}
		found[m.Path] = m
	}
	return found, nil
}

// check returns an error unless the tests are the released ones, and the client the
// one that was asked for.
func (s suite) check(modules map[string]module, official bool) error {
	for path, version := range s.released {
		if tests := modules[path]; tests.Replace != nil || tests.Version != version {
			return fmt.Errorf("the tests are not those of %s as it was released in %s: it is %s", path, version, tests)
		}
	}
	client := modules[clientModule]
	if official {
		if client.Replace != nil || client.Version != clientVersion {
			return fmt.Errorf("the client is not %s as it was released in %s: it is %s", clientModule, clientVersion, client)
		}
		return nil
	}
	if client.Replace == nil || client.Replace.Path != shim {
		return fmt.Errorf("the client is not Quorate: %s is %s, not replaced by %s", clientModule, client, shim)
	}
	if quorate := modules[quorateModule]; quorate.Replace == nil || quorate.Replace.Path != checkout {
		return fmt.Errorf("the client is not the Quorate of this checkout: %s is %s", quorateModule, quorate)
	}
	return nil
}

func (m module) String() string {
	switch {
	case m.Path == "":
		return "absent"
	case m.Replace != nil:
		return m.Replace.String()
	}
	return m.Path + " " + m.Version
}
