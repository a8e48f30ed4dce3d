package endpoint_test

import (
	"fmt"

	"github.com/quorate/quorate/internal/endpoint"
)

func ExampleParse() {
	for _, s := range []string{"10.0.0.1:2379", "http://etcd-0:2379/", "https://etcd-1:2379", "unixs:///run/etcd.sock"} {
		e, err := endpoint.Parse(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		network, addr := endpoint.DialTarget(e.Address)
		fmt.Printf("%s %s, server name %s, TLS without a configuration: %t\n", network, addr, e.ServerName, e.UseTLS(false))
	}
	// Output:
	// tcp 10.0.0.1:2379, server name 10.0.0.1:2379, TLS without a configuration: false
	// tcp etcd-0:2379, server name etcd-0:2379, TLS without a configuration: false
	// tcp etcd-1:2379, server name etcd-1:2379, TLS without a configuration: true
	// unix /run/etcd.sock, server name etcd.sock, TLS without a configuration: true
}

func ExampleParse_error() {
	_, err := endpoint.Parse("https://root:secret@:port")
	fmt.Println(err)
	_, err = endpoint.Parse("ftp://etcd-0:2379")
	fmt.Println(err)
	// Output:
	// endpoint "https://xxxxx@:port": it is not a valid URL: write "http://host:port", with an IPv6 address in brackets
	// endpoint "ftp://etcd-0:2379": unknown scheme "ftp": use http, https, unix or unixs, or write "host:port" alone
}
