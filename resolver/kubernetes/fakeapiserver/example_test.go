package fakeapiserver_test

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

// client-go lists EndpointSlices, until it is denied.
func Example() {
	server, err := fakeapiserver.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	users := map[string]string{discoveryv1.LabelServiceName: "users"}
	if _, err := server.Create(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "users-1", Labels: users},
	}); err != nil {
		panic(err)
	}

	client := discoveryclient.NewForConfigOrDie(server.RESTConfig())
	list, err := client.EndpointSlices("shop").List(context.Background(), metav1.ListOptions{})
	fmt.Println(len(list.Items), err)

	server.Deny("list")
	_, err = client.EndpointSlices("shop").List(context.Background(), metav1.ListOptions{})
	fmt.Println(err)
	fmt.Println("lists:", server.Count("list"))
	// Output:
	// 1 <nil>
	// endpointslices.discovery.k8s.io is forbidden: User "system:serviceaccount:default:client" cannot list resource "endpointslices" in API group "discovery.k8s.io" in the namespace "shop"
	// lists: 2
}
