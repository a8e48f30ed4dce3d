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
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

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

// tlsFields are the fields of a file that say how connections are secured.
type tlsFields struct {
	InsecureTransport     bool   `json:"insecure-transport"`
	InsecureSkipTLSVerify bool   `json:"insecure-skip-tls-verify"`
	CertFile              string `json:"cert-file"`
	KeyFile               string `json:"key-file"`
	TrustedCAFile         string `json:"trusted-ca-file"`
	CAFile                string `json:"ca-file"`
}

// config returns a Config that is secured, and holds nothing else.
func (f tlsFields) config() (*clientv3.Config, error) {
	if f.InsecureTransport {
		return new(clientv3.Config), nil
	}
	certificates, err := f.certificates()
	if err != nil {
		return nil, err
	}
	ca, caField := f.TrustedCAFile, "trusted-ca-file"
	if ca == "" {
		ca, caField = f.CAFile, "ca-file"
	}
	cfg, err := clientv3.NewClientConfig(&clientv3.ConfigSpec{Secure: &clientv3.SecureConfig{
		Cert:               f.CertFile,
		Key:                f.KeyFile,
		Cacert:             ca,
		InsecureSkipVerify: f.InsecureSkipTLSVerify,
	}}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caField, err)
	}
	cfg.TLS.MinVersion = tls.VersionTLS12
	cfg.TLS.Certificates = certificates // for the caller; connections read the files again
	return cfg, nil
}

// certificates returns the client's certificate, if there is one. It checks all that
// NewClientConfig will, whose errors do not tell the certificate from the authorities.
func (f tlsFields) certificates() ([]tls.Certificate, error) {
	switch {
	case f.CertFile == "" && f.KeyFile == "":
		return nil, nil
	case f.KeyFile == "":
		return nil, errors.New("key-file: it is missing, and the certificate in cert-file is of no use without its key")
	case f.CertFile == "":
		return nil, errors.New("cert-file: it is missing, and the key in key-file is of no use without its certificate")
	}
	certificate, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("cert-file and key-file: %w", err)
	}
	return []tls.Certificate{certificate}, nil
}

// decode reads fields into the struct that target points to, with errors that name
// the field.
func decode(fields []byte, target any) error {
	err := json.Unmarshal(fields, target)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		// Of all fields, only parts of this one parse their own values.
		return fmt.Errorf("LogConfig: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("the file holds %s: want fields with values", withArticle(wrong.Value))
	default:
		// The path to a field begins with the name of an embedded struct.
		return fmt.Errorf("%s: want %s, got %s", strings.TrimPrefix(wrong.Field, "Config."), wanted(wrong.Type), withArticle(wrong.Value))
	}
}

// wanted says how a value of type t is written.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a time as a whole number of nanoseconds"
	}
	switch t.Kind() {
	case reflect.String:
		return "text (in quotes, if it looks like a number)"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Uint:
		return "a whole number that is not negative"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	default:
		return "fields with values"
	}
}

// withArticle puts an article before what package json calls a value: "string", "number 1.5".
func withArticle(value string) string {
	if strings.HasPrefix(value, "array") || strings.HasPrefix(value, "object") {
		return "an " + value
	}
	return "a " + value
}

// withoutQuotes returns the message of a parser of YAML up to where it quotes the
// file, which may be a password: an asterisk before a word, say, makes it the name
// of an anchor, and messages name anchors.
func withoutQuotes(err error) string {
	message := err.Error()
	if i := strings.IndexAny(message, "'`\"{,"); i >= 0 {
		return strings.TrimSpace(message[:i]) + " ..."
	}
	return message
}
