package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
)

// script is an API server scripted by the test, for virtual time.
type script func(out io.Writer, r *http.Request) error

// RoundTrip runs the script. Its output is the answer, with status 200; an error before the first byte fails the
// request.
func (s script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, out := io.Pipe()
	begun := make(chan error, 1)
	w := &scriptWriter{PipeWriter: out, begun: begun}
	go func() {
		err := s(w, r)
		w.begin(err)
		_ = out.CloseWithError(err)
	}()
	go func() {
		<-r.Context().Done()
		_ = out.CloseWithError(r.Context().Err())
	}()
	if err := <-begun; err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

type scriptWriter struct {
	*io.PipeWriter
	once  sync.Once
	begun chan<- error
}

func (w *scriptWriter) begin(err error) { w.once.Do(func() { w.begun <- err }) }

func (w *scriptWriter) Write(b []byte) (int, error) {
	w.begin(nil)
	if len(b) == 0 {
		return 0, nil
	}
	return w.PipeWriter.Write(b)
}

// begin sends the header of the answer.
func begin(out io.Writer) { _, _ = out.Write(nil) }

func sendEvent(out io.Writer, kind watch.EventType, object any) {
	raw, err := json.Marshal(object)
	if err == nil {
		err = json.NewEncoder(out).Encode(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}})
	}
	_ = err // the client is gone
}

// sendList streams a complete list of one slice.
func sendList(out io.Writer, version int, s *discoveryv1.EndpointSlice) {
	sendEvent(out, watch.Added, s)
	sendEvent(out, watch.Bookmark, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

func sendExpired(out io.Writer) {
	sendEvent(out, watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version"})
}

// keepOpen keeps an answer open for d, or until the client closes it.
func keepOpen(r *http.Request, d time.Duration) error {
	return pause.For(r.Context(), d)
}

const (
	forever = 1000 * time.Hour
	hangs   = time.Hour // how long a request that hangs is not ended by its context
)

func isWatchList(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }

// underScript runs a test in virtual time, with a channel for the service "users", and requires that Close waits for no
// request.
func underScript(t *testing.T, s script, test func(t *testing.T, c *grpctest.Channel)) {
	t.Helper()
	config := Config{MassRemovalDelay: -1, REST: &rest.Config{Host: "https://scripted", Transport: s}}
	env := noEnvironment(t)
	synctest.Test(t, func(t *testing.T) {
		b, err := newBuilder(config, env, defaultTiming())
		require.NoError(t, err)
		c, r := grpctest.Resolve(t, b, "kubernetes:///users.shop")
		test(t, c)
		closing := time.Now()
		r.Close()
		assert.LessOrEqual(t, time.Since(closing), reaction)
		time.Sleep(2 * hangs) // the last request ends
	})
}

func TestStreamedListThatIsCutOff(t *testing.T) {
	for name, cut := range map[string]func(io.Writer){
		"in the orderly way": func(io.Writer) {},
		"by status 410":      sendExpired,
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			underScript(t, func(out io.Writer, _ *http.Request) error {
				requests.Add(1)
				sendEvent(out, watch.Added, slice("users", "a", 80, "10.0.0.1"))
				cut(out)
				return nil
			}, func(t *testing.T, c *grpctest.Channel) {
				c.AwaitError(t, 0, "before the list was complete")
				time.Sleep(10 * time.Minute)
				states, errs := c.Counts()
				assert.Zero(t, states, "a partial list is not published")
				assert.Equal(t, 1, errs)
				assert.Less(t, requests.Load(), int32(200), "pauses grow")
			})
		})
	}
}

// A restarted API server has lost its history. The list is requested at once, however long the pauses have become.
func TestBackFromLongOutage(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	// Virtual time starts at the beginning of 2000.
	back := time.Date(2000, 1, 1, 0, 10, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		starting int32 // requests refused during startup
		within   time.Duration
	}{
		"ready":       {within: longestUnreachable},
		"not ready":   {starting: 1, within: longestUnreachable + 2*time.Second},
		"not for two": {starting: 2, within: longestUnreachable + 5*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var requests, starting atomic.Int32
			starting.Store(c.starting)
			underScript(t, func(out io.Writer, r *http.Request) error {
				switch {
				case requests.Add(1) == 1:
					sendList(out, 5, slice("users", "a", 80, "10.0.0.1"))
					return keepOpen(r, 2*time.Second)
				case time.Now().Before(back):
					return refused
				case starting.Add(-1) >= 0:
					return io.ErrUnexpectedEOF
				case isWatchList(r):
					sendList(out, 9, slice("users", "a", 80, "10.0.0.2"))
					return keepOpen(r, forever)
				default:
					sendExpired(out)
					return nil
				}
			}, func(t *testing.T, ch *grpctest.Channel) {
				ch.AwaitAddresses(t, "10.0.0.1:80")
				time.Sleep(time.Until(back))
				ch.AwaitAddresses(t, "10.0.0.2:80")
				assert.LessOrEqual(t, time.Since(back), c.within)
			})
		})
	}
}

func oneSlice(hosts ...string) *discoveryv1.EndpointSliceList {
	return &discoveryv1.EndpointSliceList{
		ListMeta: metav1.ListMeta{ResourceVersion: "5"},
		Items:    []discoveryv1.EndpointSlice{*slice("users", "a", 80, hosts...)},
	}
}

func TestListThatTakesLong(t *testing.T) {
	underScript(t, func(out io.Writer, r *http.Request) error {
		switch {
		case isWatchList(r):
			begin(out) // the list never ends
		case r.URL.Query().Get("watch") == "":
			begin(out)
			if err := keepOpen(r, time.Minute); err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(oneSlice("10.0.0.1"))
		default:
			begin(out)
		}
		return keepOpen(r, forever)
	}, func(t *testing.T, c *grpctest.Channel) {
		time.Sleep(2 * time.Minute)
		c.AwaitAddresses(t, "10.0.0.1:80")
		_, errs := c.Counts()
		assert.Zero(t, errs)
	})
}

// The builder still knows that the server is old after a failed list.
func TestListIsRequestedAgain(t *testing.T) {
	var lists, streamed atomic.Int32
	underScript(t, func(out io.Writer, r *http.Request) error {
		switch {
		case isWatchList(r):
			streamed.Add(1)
		case r.URL.Query().Get("watch") != "":
		case lists.Add(1) < 4:
			return io.ErrUnexpectedEOF
		default:
			return json.NewEncoder(out).Encode(oneSlice("10.0.0.1"))
		}
		begin(out)
		return keepOpen(r, forever)
	}, func(t *testing.T, c *grpctest.Channel) {
		c.AwaitAddresses(t, "10.0.0.1:80")
		assert.EqualValues(t, 1, streamed.Load())
	})
}

// For example, a credentials plugin ignores the context of the request that waits for it.
func TestTransportThatHangs(t *testing.T) {
	underScript(t, func(io.Writer, *http.Request) error {
		time.Sleep(hangs)
		return io.ErrUnexpectedEOF
	}, func(t *testing.T, c *grpctest.Channel) {
		c.AwaitError(t, 0, "did not answer in time")
	})
}

// Lists come from the cache of the API server, unless a restored backup has lower versions.
func TestListIsNotOlderThanWhatIsKnown(t *testing.T) {
	var versions []string
	tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	underScript(t, func(out io.Writer, r *http.Request) error {
		query := r.URL.Query()
		switch version := query.Get("resourceVersion"); {
		case isWatchList(r):
			return apierrors.NewBadRequest("sendInitialEvents is forbidden")
		case query.Get("watch") != "" && len(versions) == 1:
			sendExpired(out)
			return nil
		case query.Get("watch") != "":
			begin(out)
			return keepOpen(r, forever)
		default:
			versions = append(versions, version)
			if version != "0" && version != "" {
				return tooLarge
			}
			return json.NewEncoder(out).Encode(oneSlice(fmt.Sprintf("10.0.0.%d", len(versions))))
		}
	}, func(t *testing.T, c *grpctest.Channel) {
		c.AwaitAddresses(t, "10.0.0.3:80")
		assert.Equal(t, []string{"0", "5", ""}, versions)
	})
}
