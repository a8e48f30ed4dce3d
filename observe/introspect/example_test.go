package introspect_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/observe/introspect"
)

// A program that shows its client to operators, and says whether it is ready.
func ExampleHandler() {
	cluster, err := fakeetcd.Start(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	mux := http.NewServeMux()
	mux.Handle("/debug/etcd", introspect.Handler(introspect.Options{}, map[string]introspect.Source{"orders": client}))
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := client.Ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})

	for _, path := range []string{"/readyz", "/debug/etcd"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /readyz 200
	// /debug/etcd 200
}
