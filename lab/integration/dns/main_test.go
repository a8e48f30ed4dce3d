package dns_test

import (
	"testing"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// cluster has one member, for what is about etcd.
var cluster *lab.Cluster

func TestMain(m *testing.M) { labtest.Main(m, func(c *lab.Cluster) { cluster = c }) }
