package introspect

import (
	_ "embed" // the page
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultLimit is the default of [Options.Limit].
const DefaultLimit = 20

// maxLimit bounds what a request may ask for.
const maxLimit = 1000

// Options say what a report holds.
type Options struct {
	// Limit bounds each list: the oldest calls, the watches that are furthest behind, the leases
	// with the least time left. The default is [DefaultLimit]; more than 1000 counts as 1000.
	// A request may ask for another number: "?limit=100".
	Limit int
	// Keys shows the keys of watches.
	Keys bool
}

// WithDefaults returns the options with the default for what is not set.
func (o Options) WithDefaults() Options {
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	o.Limit = min(o.Limit, maxLimit)
	return o
}

// Source is what a report is about: a *clientv3.Client, or *[Channels]. Introspect sends nothing to servers.
type Source interface {
	Introspect(o Options) Client
}

// Handler serves the [Report] on clients, by name. The map must not be changed. A closed client is shown as
// closed.
//
// A request that prefers HTML gets a page, others get JSON; "?format=json" is JSON in any case.
// Methods other than GET and HEAD are refused with status 405, an invalid limit with 400.
func Handler(o Options, clients map[string]Source) http.Handler {
	return &handler{options: o, clients: clients, names: slices.Sorted(maps.Keys(clients))}
}

type handler struct {
	options Options
	clients map[string]Source
	names   []string
}

//go:embed page.html
var page []byte

// policy lets the page run its own script and ask for its own report, and nothing else.
const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'"

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are supported", http.StatusMethodNotAllowed)
		return
	}
	o, err := h.asked(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.URL.Query().Get("format") != "json" && strings.Contains(r.Header.Get("Accept"), "text/html") {
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", policy)
		_, _ = w.Write(page) // the client has left
		return
	}
	header.Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(h.report(o)) // the client has left
}

// asked returns the options of a request.
func (h *handler) asked(r *http.Request) (Options, error) {
	o := h.options
	if limit := r.URL.Query().Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 {
			return o, errors.New("limit must be a positive number")
		}
		o.Limit = n
	}
	return o.WithDefaults(), nil
}

func (h *handler) report(o Options) Report {
	host, _ := os.Hostname() // "" says enough
	report := Report{
		At: time.Now().UTC(), Process: Process{Program: filepath.Base(os.Args[0]), Host: host, PID: os.Getpid()}, Clients: make([]Client, 0, len(h.names)),
	}
	for _, name := range h.names {
		if channels, ok := h.clients[name].(*Channels); ok {
			open, _ := channels.each(name, o)
			report.Clients = append(report.Clients, open...)
			continue
		}
		c := h.clients[name].Introspect(o)
		c.Name = name
		report.Clients = append(report.Clients, c)
	}
	return report
}
