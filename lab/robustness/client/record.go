package client

import (
	"context"
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// Do makes an operation, of which Client and Request are set, and returns it complete, with the error of the client.
func Do(ctx context.Context, kv KV, keys [model.Keys]string, op model.Operation, now func() time.Duration) (model.Operation, error) {
	op.Call = now()
	response, err := kv.Do(ctx, keys, op.Request)
	op.Return = now()
	op.Response, op.Outcome = response, history.OutcomeOf(op.Request.Kind.Writes(), err)
	if err != nil {
		op.Err = err.Error()
	}
	return op, err
}

// Read makes a watch, passes each response on, and returns the watch when its channel is closed. A watch that the end of ctx
// ended counts as open.
func Read(ctx context.Context, w Watcher, request history.WatchRequest, now func() time.Duration, took func(history.WatchResponse)) history.Watch {
	watch := history.Watch{Request: request, End: history.EndedByItself}
	responses := w.Watch(ctx, request)
	watch.Returned = now()
	failed := false
	for response := range responses {
		response.At = now()
		watch.Responses = append(watch.Responses, response)
		failed = failed || response.IsTerminal()
		took(response)
	}
	if ctx.Err() != nil && !failed { // a watch that has failed did so whatever happened then
		watch.End = history.StillOpen
	}
	watch.Ended = now()
	return watch
}
