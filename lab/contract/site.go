package contract

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/lab/contract/transcript"
	"github.com/quorate/quorate/lab/servers/site"
)

// The acts on a cluster.
const (
	// Freeze stops all members without closing their connections, as a hung host would; Thaw lets them go on.
	Freeze site.Act = "freeze"
	Thaw   site.Act = "thaw"
	// Kill ends the first member, which does not lead then; Restart starts it again.
	Kill    site.Act = "kill"
	Restart site.Act = "restart"
	// Isolate ends all members but the first.
	Isolate site.Act = "isolate"
)

// Patience is far above what any scenario takes; one that hangs is ended by it.
const Patience = 2 * time.Minute

// Site describes to the program the cluster that it runs against.
type Site struct {
	// Site holds the certificates, and the URL at which acts are posted.
	site.Site
	// Endpoints are the members' client URLs.
	Endpoints []string
	// TLS is the client configuration made of the certificates, nil without any.
	TLS *tls.Config `json:"-"`
}

// Scenario is one part of the program. Scenarios of one cluster run one after the other, in order, so that revisions
// are the same for both clients.
type Scenario struct {
	Name string
	Run  func(ctx context.Context, site Site, log *transcript.Log)
}

// Outcome is what a program that played scenarios prints.
type Outcome struct {
	Entries []transcript.Entry
	// Error is what it could not go on with, "" if it came to its end.
	Error string
}

// Play runs scenarios on a site and returns what they recorded.
func Play(ctx context.Context, s Site, scenarios []Scenario) Outcome {
	var all []transcript.Entry
	err := s.connect()
	for i := 0; i < len(scenarios) && err == nil; i++ {
		var entries []transcript.Entry
		entries, err = scenarios[i].play(ctx, s)
		all = append(all, entries...)
	}
	if err != nil {
		return Outcome{all, err.Error()}
	}
	return Outcome{Entries: all}
}

func (s *Site) connect() (err error) {
	if s.Files.CA != "" {
		s.TLS, err = s.Files.TLS()
	}
	return err
}

func (s Scenario) play(ctx context.Context, site Site) ([]transcript.Entry, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, errors.New("the scenario hangs"))
	defer cancel()
	return transcript.Record(s.Name, func(log *transcript.Log) {
		for i, endpoint := range site.Endpoints {
			_, address, _ := strings.Cut(endpoint, "://")
			log.Alias(endpoint, fmt.Sprintf("URL of m%d", i+1))
			log.Alias(address, fmt.Sprintf("address of m%d", i+1))
		}
		s.Run(ctx, site, log)
	})
}
