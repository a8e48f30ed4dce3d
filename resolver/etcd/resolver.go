package etcd

import (
	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

// Scheme is the scheme of the targets: "etcd:///billing".
const Scheme = "etcd"

// Config configures a resolver. The zero value is suitable for most programs.
type Config = resolver.Config

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers: that of resolver.New in package clientv3/naming/resolver.
func NewBuilder(client *clientv3.Client, cfg Config) (gresolver.Builder, error) {
	return resolver.New(client, cfg)
}

// Key returns the etcd key of an endpoint resolved by a Builder, "" for others.
func Key(ep gresolver.Endpoint) string { return resolver.Key(ep) }

// Metadata returns the metadata of an endpoint resolved by a Builder, as encoding/json decodes into
// an any: numbers as float64, objects as map[string]any. It is nil for others, and for an endpoint
// without metadata. The caller must not modify it.
func Metadata(ep gresolver.Endpoint) any { return resolver.Metadata(ep) }
