package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// NewScreen returns the live view of a source for bubbletea, which is asked once each interval. ctx
// ends what is under way.
func NewScreen(ctx context.Context, source Source, interval time.Duration) tea.Model {
	return screen{ctx: ctx, source: source, interval: interval}
}

type screen struct {
	ctx           context.Context
	source        Source
	interval      time.Duration
	width, height int
	latest        *Snapshot

	down, right int   // by how many lines and columns the view is scrolled
	order       order // of the members
	failing     bool  // only those that do not serve are shown
}

// order is how members are sorted.
type order uint8

const (
	asGiven order = iota
	byState       // those that do not serve first
	byLatency
	orders
)

func (o order) String() string {
	return [orders]string{"as given", "by state", "by latency"}[o]
}

// sorted returns the members of a snapshot in an order; those of a client stay together.
func (o order) sorted(members []Member) []Member {
	members = slices.Clone(members)
	slices.SortStableFunc(members, func(a, b Member) int {
		switch client := cmp.Compare(a.Client, b.Client); o {
		case byState:
			return cmp.Or(client, cmp.Compare(serves(a), serves(b)))
		case byLatency:
			return cmp.Or(client, cmp.Compare(b.LatencyMS, a.LatencyMS))
		case asGiven, orders:
		}
		return 0
	})
	return members
}

func serves(m Member) int {
	if m.State == "serving" {
		return 1
	}
	return 0
}

// due is the message that the next snapshot is due.
type due struct{}

// Init asks for the first snapshot.
func (s screen) Init() tea.Cmd { return s.ask }

func (s screen) ask() tea.Msg { return s.source.Snapshot(s.ctx) }

// Update takes in a snapshot, a key or a size.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case Snapshot:
		s.latest = &msg
		return s, tea.Tick(s.interval, func(time.Time) tea.Msg { return due{} })
	case due:
		return s, s.ask
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc":
			return s, tea.Quit
		case "ctrl+c":
			return s, tea.Interrupt
		case "s":
			s.order = (s.order + 1) % orders
		case "f":
			s.failing = !s.failing
		case "down", "j":
			s.down++
		case "up", "k":
			s.down--
		case "pgdown", "space":
			s.down += s.page()
		case "pgup":
			s.down -= s.page()
		case "right", "l":
			s.right += sideways
		case "left", "h":
			s.right -= sideways
		case "home", "g":
			s.down, s.right = 0, 0
		}
		lines := strings.Split(s.text(), "\n")
		longest := 0
		for _, line := range lines {
			longest = max(longest, len([]rune(line)))
		}
		s.down = max(min(s.down, len(lines)-s.page()), 0)
		s.right = max(min(s.right, longest-s.width), 0)
	}
	return s, nil
}

// sideways is the number of columns by which a key scrolls.
const sideways = 20

// page is how many lines of the tables fit: all but the title and the empty line after it.
func (s screen) page() int { return max(s.height-2, 1) }

// text returns the tables of the latest snapshot.
func (s screen) text() string {
	if s.latest == nil {
		return "asking…"
	}
	shown := *s.latest
	shown.Members = s.order.sorted(shown.Members)
	if s.failing {
		shown.Members = slices.DeleteFunc(shown.Members, func(m Member) bool { return serves(m) == 1 })
	}
	return strings.TrimRight(shown.Text(), "\n")
}

// View shows the part of the latest snapshot that fits.
func (s screen) View() tea.View {
	lines := strings.Split(s.text(), "\n")
	if s.height > 0 {
		lines = lines[min(s.down, len(lines)):]
		lines = lines[:min(s.page(), len(lines))]
	}
	for i, line := range lines {
		letters := []rune(line)
		lines[i] = string(letters[min(s.right, len(letters)):])
	}
	text := cut(strings.Join(lines, "\n"), s.width)
	if s.latest != nil {
		text = cut(fmt.Sprintf("%s, every %v, %v; q ends, s sorts, f filters, arrows scroll", s.latest.At.Format("15:04:05"), s.interval, s.order), s.width) + "\n\n" + text
	}
	view := tea.NewView(text)
	view.AltScreen = true
	return view
}
