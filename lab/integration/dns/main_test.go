package dns_test

import (
	"testing"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/onemember"
)

// cluster has one member, for what is about etcd.
var cluster *lab.Cluster

func TestMain(m *testing.M) { onemember.Main(m, func(c *lab.Cluster) { cluster = c }) }
