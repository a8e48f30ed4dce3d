// Package yaml reads the configuration of a client from a file.
//
// The fields of a file are:
//
//	endpoints                 list of text
//	insecure-transport        true means plaintext; the fields for TLS are ignored then
//	insecure-skip-tls-verify  true means that any certificate of a server is accepted
//	cert-file, key-file       paths of the client's certificate and its key, in PEM
//	trusted-ca-file           path of the certificate authorities to trust, in PEM
//	ca-file                   old name of trusted-ca-file
//	username, password        credentials of the client
//	token                     a token in place of them
//	LogConfig                 configuration of the logger, with the fields of zap.Config
//
// and auto-sync-interval, dial-timeout, dial-keep-alive-time,
// dial-keep-alive-timeout, MaxCallSendMsgSize, MaxCallRecvMsgSize,
// permit-without-stream, reject-old-cluster, max-unary-retries,
// backoff-wait-between, backoff-jitter-fraction, max-watch-buffer-bytes,
// max-total-watch-buffer-bytes, disable-split-replay, balancer, service-config,
// disable-health-checks, disable-hedging, disable-health-sharing,
// write-stall-timeout, allow-insecure-sync and wait-ready, which mean what the fields
// of clientv3.Config do. Times are whole numbers of nanoseconds. The case of letters
// does not matter in the names of fields, and fields with other names are ignored.
package yaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/clientv3"
)

// NewConfig reads a file. The configuration uses TLS unless the file says
// insecure-transport. The TLS files are read, too, and read again for each
// connection, so that they can be replaced without a restart. If the authorities
// cannot be read then, the last good ones stay in force. If the certificate cannot, or
// does not match the key because only one of them has been replaced yet, the
// connection fails and is tried again.
//
// Errors name the file and the field that is wrong. They quote nothing of the file
// that may be secret.
func NewConfig(fpath string) (*clientv3.Config, error) {
	text, err := os.ReadFile(fpath)
	if err != nil {
		return nil, err // it names the file
	}
	cfg, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fpath, err)
	}
	return cfg, nil
}

func parse(text []byte) (*clientv3.Config, error) {
	fields, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, errors.New(withoutQuotes(err))
	}
	var tls tlsFields
	if err := decode(fields, &tls); err != nil {
		return nil, err
	}
	cfg, err := tls.config()
	if err != nil {
		return nil, err
	}
	if err := decodeConfig(fields, cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// decodeConfig reads the fields that go by the names that Config has for them.
func decodeConfig(fields []byte, cfg *clientv3.Config) error {
	file := struct {
		clientv3.Config
		// These fields of Config are hidden: they hold what no file can.
		TLS, DialOptions, Context, Logger json.RawMessage
	}{Config: *cfg}
	if err := decode(fields, &file); err != nil {
		return err
	}
	for _, hidden := range []struct {
		name  string
		value json.RawMessage
	}{
		{"TLS", file.TLS}, {"DialOptions", file.DialOptions}, {"Context", file.Context}, {"Logger", file.Logger},
	} {
		if hidden.value != nil && string(hidden.value) != "null" {
			return fmt.Errorf("%s: it cannot be set in a file", hidden.name)
		}
	}
	*cfg = file.Config
	return nil
}
