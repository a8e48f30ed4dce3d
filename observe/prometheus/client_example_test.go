package prometheus_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/clientv3"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
)

func ExampleNewClientCollector() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"10.0.0.1:2379"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(quorateprom.NewClientCollector("orders", client))

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		if family.GetName() == "quorate_client_ready" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: quorate_client_ready 0
}
