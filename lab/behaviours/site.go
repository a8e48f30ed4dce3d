package behaviours

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

// behaviourTimeout is far above what any recorded behaviour takes; one that hangs is ended by it.
const behaviourTimeout = 2 * time.Minute

// Site is where a behaviour runs.
type Site struct {
	site.Site
	// TLS is the client configuration made of the certificates, nil without any.
	TLS *tls.Config
}

// Behaviour is one behaviour of a client and a server. It records what it sees in a transcript, or checks it, or both.
type Behaviour struct {
	// Area is the part of the matrix in which it is a row, "" for one that is none.
	Area, Name string
	Setup      site.Setup
	// Limit is how long it may take.
	Limit time.Duration

	run func(ctx context.Context, s Site, log *transcript.Log)
}

// String returns the name by which a program runs it.
func (b Behaviour) String() string { return b.Area + ": " + b.Name }

// Play runs behaviours on a site, in their order, and returns what they recorded. It ends with the first that fails.
func Play(ctx context.Context, at site.Site, names ...string) (o site.Outcome) {
	s := Site{Site: at}
	var err error
	if s.Files.CA != "" {
		s.TLS, err = s.Files.TLS()
	}
	for i := 0; i < len(names) && err == nil; i++ {
		at := slices.IndexFunc(All, func(b Behaviour) bool { return b.String() == names[i] })
		if at < 0 {
			err = fmt.Errorf("no such behaviour: %s", names[i])
			break
		}
		var entries []transcript.Entry
		entries, err = All[at].play(ctx, s)
		o.Entries = append(o.Entries, entries...)
		if err != nil && len(names) > 1 {
			err = fmt.Errorf("%s: %w", names[i], err)
		}
	}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

func (b Behaviour) play(ctx context.Context, s Site) ([]transcript.Entry, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(s.Limit, b.Limit), errors.New("the behaviour hangs"))
	defer cancel()
	return transcript.Record(b.Name, func(log *transcript.Log) {
		for i, endpoint := range s.Endpoints {
			_, address, _ := strings.Cut(endpoint, "://")
			log.Alias(endpoint, fmt.Sprintf("URL of m%d", i+1))
			log.Alias(address, fmt.Sprintf("address of m%d", i+1))
		}
		b.run(ctx, s, log)
	})
}
