package top

import (
	"context"
	"fmt"
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
}

// due says that the next snapshot is.
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
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	}
	return s, nil
}

// View shows the latest snapshot.
func (s screen) View() tea.View {
	text := "asking…"
	if s.latest != nil {
		text = fmt.Sprintf("%s, every %v; q ends\n\n%s", s.latest.At.Format("15:04:05"), s.interval, Render(*s.latest, s.width))
	}
	if lines := strings.Split(text, "\n"); s.height > 0 && len(lines) > s.height {
		text = strings.Join(lines[:s.height], "\n")
	}
	view := tea.NewView(text)
	view.AltScreen = true
	return view
}
