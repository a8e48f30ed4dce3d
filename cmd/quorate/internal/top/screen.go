package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/quorate/quorate/cmd/internal/cli"
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

// rows bounds the tables of methods and calls.
const rows = 10

// Text returns a snapshot as tables.
func (s Snapshot) Text() string {
	var b strings.Builder
	head := []string{"ENDPOINT", "STATE", "ROLE", "LATENCY", "TERM", "APPLIED", "VERSION", "IN FLIGHT", "CALLS/S", "WHY"}
	var members [][]string
	if len(s.Clients) == 0 {
		members = append(members, head[:7])
	}
	channels := make(map[string]bool)
	for _, c := range s.Clients {
		channels[c.Name] = c.Target != ""
	}
	var causes [][]string // below the table: a narrow terminal cuts its last columns off
	client := ""
	for _, m := range s.Members {
		if channels[m.Client] {
			continue
		}
		if m.Client != client {
			client = m.Client
			members = append(members, []string{client + ":"}, head) // a line of one cell ends columns
		}
		row := []string{m.Endpoint, m.State, m.Role, ms(m.LatencyMS), number(m.Term), number(m.Applied), m.Version}
		if len(s.Clients) > 0 {
			row = append(row, fmt.Sprint(m.InFlight), fmt.Sprintf("%.1f", m.Rate), m.Why)
		} else if m.Why != "" {
			causes = append(causes, []string{m.Endpoint + ":", m.Why})
		}
		members = append(members, row)
	}
	table(&b, members)
	if len(causes) > 0 {
		b.WriteByte('\n')
		table(&b, causes)
	}
	renderChannels(&b, s)
	section(&b, s.Methods[:min(rows, len(s.Methods))], methodRow, "CALL", "CALLS/S", "FAILED/S", "MEAN", "P99")
	section(&b, s.Calls[:min(rows, len(s.Calls))], callRow, "IN FLIGHT FOR", "METHOD", "ENDPOINT", "CLIENT")
	clients := slices.DeleteFunc(slices.Clone(s.Clients), func(c Client) bool { return c.Target != "" })
	section(&b, clients, clientRow, "CLIENT", "READY", "CALLS", "WATCHES", "LAG", "UNREAD", "LEASES", "UNANSWERED", "LEAST LEFT")
	section(&b, s.Elections, electionRow, "ELECTION OR LOCK", "CLIENT", "STATE", "FOR", "REVISION")
	for _, e := range s.Errors {
		b.WriteString("\nerror: " + cli.OneLine(e) + "\n")
	}
	return cut(b.String(), 0)
}

// renderChannels shows the endpoints of gRPC channels, with the cause before what a narrow terminal cuts off.
func renderChannels(b *strings.Builder, s Snapshot) {
	for _, c := range s.Clients {
		if c.Target == "" {
			continue
		}
		title := c.Name + ", " + strings.Join(nonEmpty(c.Target, c.Policy), " by ")
		if !c.Ready {
			title += " is not ready: " + c.NotReady
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		table(b, [][]string{{title}})
		lines := [][]string{{"BACKEND", "STATE", "FOR", "WHY", "SHARE", "CALLS/S", "IN FLIGHT", "STREAMS", "LATENCY"}}
		for _, m := range s.Members {
			if m.Client != c.Name {
				continue
			}
			state := m.State
			if m.Ejected {
				state += ", ejected"
			}
			lines = append(lines, []string{
				m.Endpoint, state, (time.Duration(m.For) * time.Second).String(), m.Why, fmt.Sprintf("%.0f %%", m.Share*100), fmt.Sprintf("%.1f", m.Rate),
				fmt.Sprint(m.InFlight), fmt.Sprint(m.Streams), ms(m.LatencyMS),
			})
		}
		if len(lines) > 1 {
			table(b, lines)
		}
	}
}

// section writes a table below the others, with a row for each of all, unless there are none.
func section[T any](b *strings.Builder, all []T, row func(T) []string, head ...string) {
	if len(all) == 0 {
		return
	}
	lines := [][]string{head}
	for _, one := range all {
		lines = append(lines, row(one))
	}
	b.WriteByte('\n')
	table(b, lines)
}

func methodRow(m Method) []string {
	return []string{m.Shape, fmt.Sprintf("%.1f", m.Rate), fmt.Sprintf("%.1f", m.Failed), ms(m.MeanMS), ms(m.P99MS)}
}

func callRow(c Call) []string { return []string{ms(c.AgeMS), c.Method, c.Endpoint, c.Client} }

func clientRow(c Client) []string {
	ready, left := "yes", ""
	if !c.Ready {
		ready = "no"
	}
	if c.LeaseLeft != nil {
		left = fmt.Sprintf("%.1f s", *c.LeaseLeft)
	}
	return []string{
		c.Name, ready, fmt.Sprint(c.InFlight), fmt.Sprint(c.Watches), fmt.Sprint(c.Lag), fmt.Sprintf("%d B", c.Unread),
		fmt.Sprint(c.Leases), fmt.Sprint(c.Unanswered), left,
	}
}

func electionRow(e Election) []string {
	if !e.Leading {
		return []string{e.Name, e.Client, "campaigns", "", ""}
	}
	held := time.Duration(e.LeadingSeconds * float64(time.Second)).Round(time.Second)
	return []string{e.Name, e.Client, "leads", held.String(), fmt.Sprint(e.Revision)}
}

// Short names for what cells and tables need.
var table, ms = cli.Table, cli.Milliseconds

// cut cuts lines off after width columns, 0 for no bound, and spaces at their ends.
func cut(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if letters := []rune(line); width > 0 && len(letters) > width {
			line = string(letters[:width-1]) + "…"
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
