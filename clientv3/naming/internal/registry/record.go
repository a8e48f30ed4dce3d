package registry

import (
	"encoding/json"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"
)

// Prefix returns the prefix of the keys of all endpoints of a target. The slash separates
// the target "svc" from "svc2".
func Prefix(target string) string { return target + "/" }

// Endpoint is what is registered under a key.
type Endpoint struct {
	Addr     string
	Metadata any
}

// record is the value of a key, in JSON. The form is that of naming.Update in
// grpc-go up to 1.29, and every etcd client since 3.1 reads and writes it.
type record struct {
	// Op was the operation of an update. The value of a key always has 0, for an
	// addition; readers ignore it.
	Op       uint8
	Addr     string
	Metadata any
}

// Encode returns the value of the key under which e is registered. It fails if the
// metadata has no form in JSON.
func Encode(e Endpoint) (string, error) {
	value, err := json.Marshal(record{Addr: e.Addr, Metadata: e.Metadata})
	return string(value), err
}

func decode(value []byte) (Endpoint, error) {
	var r record
	err := json.Unmarshal(value, &r)
	return Endpoint{Addr: r.Addr, Metadata: r.Metadata}, err
}

// decode returns the endpoint that a key holds. It logs an invalid value to the client's
// logger and returns false.
func (f *Follower) decode(kv *mvccpb.KeyValue) (Endpoint, bool) {
	e, err := f.Decode(kv.Value)
	if err != nil {
		f.client.GetLogger().Warn("a registered endpoint cannot be understood and is ignored",
			zap.ByteString("key", kv.Key), zap.Error(err))
	}
	return e, err == nil
}
