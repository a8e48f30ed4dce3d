package model_test

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// A put of unknown outcome may be missing at first and be there later, but it must not
// take effect a second time.
func Example() {
	unknown := model.Operation{
		Request: model.Request{Kind: model.Put, Then: []model.Act{{Verb: model.Write, Value: "x"}}},
		Outcome: model.Unknown, Err: "the connection broke", Call: 1, Return: 2,
	}
	get := func(at time.Duration, revision int64, seen model.KV) model.Operation {
		return model.Operation{
			Client: 1, Outcome: model.Answered, Call: at, Return: at + 1,
			Request:  model.Request{Kind: model.Get, Then: []model.Act{{Verb: model.Read}}},
			Response: model.Response{Revision: revision, Succeeded: true, Results: []model.Result{{KV: seen}}},
		}
	}
	history := model.History{Operations: []model.Operation{
		unknown,
		get(3, 4, model.KV{}),
		get(5, 5, model.KV{Value: "x", CreateRevision: 5, ModRevision: 5, Version: 1}),
	}}
	finding, err := model.Check(history, time.Minute)
	fmt.Println(finding.Verdict, err)

	history.Operations = append(history.Operations,
		get(7, 6, model.KV{Value: "x", CreateRevision: 5, ModRevision: 6, Version: 2}))
	finding, err = model.Check(history, time.Minute)
	fmt.Println(finding.Verdict, err)
	fmt.Println(finding.Message)
	// Output:
	// linearizable <nil>
	// violated <nil>
	// 3 of 4 answers fit, and then client 1, called at 7ns: {"kind":"get","then":[{"verb":"read","key":0}]} → {"revision":6,"succeeded":true,"results":[{"kv":{"value":"x","createRevision":5,"modRevision":6,"version":2}}]}; the store before it: [{"value":"x","createRevision":[5,5],"modRevision":[5,5],"version":1},{},{}]
}
