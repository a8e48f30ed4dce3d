package locks

import (
	"errors"
	"strings"

	"github.com/quorate/quorate/lab/link"
)

// gateway is a contender's own way to the members: a link to each of them. While it
// is paused the contender is as a program that is stopped, or whose host sleeps: no
// renewal leaves it, no event comes to it, and it does not know.
type gateway []*link.Link

// openGateway makes a gateway to endpoints. It must be closed.
func openGateway(endpoints []string) (gateway, error) {
	var g gateway
	for _, endpoint := range endpoints {
		l, err := link.Listen(strings.TrimPrefix(endpoint, "http://"))
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		g = append(g, l)
	}
	return g, nil
}

// endpoints returns the URLs of the contender's side.
func (g gateway) endpoints() []string {
	out := make([]string, len(g))
	for i, l := range g {
		out[i] = "http://" + l.Addr()
	}
	return out
}

// pause withholds everything from now on.
func (g gateway) pause() {
	for _, l := range g {
		l.Blackhole(link.Both)
	}
}

// resume delivers what was withheld or, if the connections are lost, drops it with
// them, and carries again.
func (g gateway) resume(lost bool) {
	for _, l := range g {
		if lost {
			l.Cut()
		}
		l.Heal()
	}
}

func (g gateway) close() error {
	errs := make([]error, len(g))
	for i, l := range g {
		errs[i] = l.Close()
	}
	return errors.Join(errs...)
}
