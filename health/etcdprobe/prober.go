package etcdprobe

import (
	"context"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/health"
)

// Prober probes etcd members. The zero value asks everything. It has no state, and may be
// used by any number of goroutines.
type Prober struct {
	// StatusOnly asks for the member's status alone: one call in place of three, which
	// shows life and role, and not whether the member does its work. It is for slow
	// probes of quiet connections, and to learn roles.
	//
	// A member does not answer it while it defragments its store.
	StatusOnly bool
}

var _ health.Prober = Prober{}

// Probe asks the member, with all calls at once, and tells what the answers show as they
// come. It returns when all calls have ended, which they do when ctx does at the latest.
func (p Prober) Probe(ctx context.Context, conn grpc.ClientConnInterface, tell func(health.Report)) {
	if p.StatusOnly {
		if f := askStatus(ctx, conn); f.answered {
			tell(f.report)
		}
		return
	}
	questions := []func(context.Context, grpc.ClientConnInterface) finding{askHealth, askStatus, askRange}
	findings := make(chan finding, len(questions))
	for _, ask := range questions {
		go func() { findings <- ask(ctx, conn) }()
	}
	v := verdict{tell: tell}
	for range questions {
		v.take(<-findings)
	}
}

// verdict puts together what the calls of one probe found.
type verdict struct {
	tell func(health.Report)
	// alive: something was told. works: the member served the read. asked: the health
	// service was asked. refuses: the member said that it is not to be used.
	alive, works, asked, refuses bool
}

// take tells what a finding adds to what is known. That the member serves is told once it
// has served the read, and its health service has been heard or did not answer: a server
// may be about to leave, and do all it is asked for until then.
func (v *verdict) take(f finding) {
	v.refuses = v.refuses || f.report.Kind == health.Refusing
	switch f.of {
	case ofHealth:
		v.asked = true
	case ofRange:
		v.works = f.report.Kind == health.Served
	case ofStatus:
	}
	switch {
	case f.of != ofStatus && v.works && v.asked && !v.refuses:
		v.say(health.Report{Kind: health.Served})
	case !f.answered:
	case f.report.Kind == health.Served || f.showsLife():
		if !v.alive {
			v.say(health.Report{Kind: health.Answered})
		}
	default:
		v.say(f.report)
	}
}

func (v *verdict) say(r health.Report) {
	v.alive = true
	v.tell(r)
}
