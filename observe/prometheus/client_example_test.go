package prometheus_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/clientv3"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
)

// A client that has the observer reports its present state too.
func ExampleObserver_Attach() {
	registry := prometheus.NewRegistry()
	observer, err := quorateprom.New(registry, quorateprom.Options{Client: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"10.0.0.1:2379"}, Observer: observer})
	if err != nil {
		fmt.Println(err)
		return
	}
	ready := func() {
		families, err := registry.Gather()
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, family := range families {
			if family.GetName() == "quorate_client_ready" {
				fmt.Println(family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
				return
			}
		}
		fmt.Println("no client")
	}
	ready()
	if err := client.Close(); err != nil {
		fmt.Println(err)
		return
	}
	ready()
	// Output:
	// quorate_client_ready 0
	// no client
}
