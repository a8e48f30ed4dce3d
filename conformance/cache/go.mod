// The suite's module requires go.etcd.io/etcd/cache/v3, which has no release. None
// of the packages that are run here uses it.
module go.etcd.io/etcd/cache/v3

go 1.26.0
