// Package policies registers the load-balancing policies of package balancer with gRPC,
// for all ClientConns of the program. Import it for that effect:
//
//	import _ "github.com/quorate/quorate/balancer/policies"
//
// Service configs can then select "quorate_round_robin", "quorate_pinned",
// "quorate_nearest" and "quorate_p2c".
package policies

import (
	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/nearest"
	"github.com/quorate/quorate/balancer/p2c"
	"github.com/quorate/quorate/balancer/pinned"
	"github.com/quorate/quorate/balancer/roundrobin"
)

func init() {
	for _, b := range []balancer.Builder{
		nearest.Builder, p2c.Builder, pinned.Builder, roundrobin.Builder,
	} {
		balancer.Register(b)
	}
}
