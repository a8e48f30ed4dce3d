package kubernetes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func containsAll(s string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

func TestParseTarget(t *testing.T) {
	users := func(namespace string) serviceKey { return serviceKey{namespace: namespace, name: "users"} }
	named, numbered := port{name: "grpc"}, port{number: 8080}
	for text, want := range map[string]serviceTarget{
		// Authority empty.
		"kubernetes:///users":                              {service: users("home")},
		"kubernetes:///users:grpc":                         {service: users("home"), port: named},
		"kubernetes:///users:8080":                         {service: users("home"), port: numbered},
		"kubernetes:///users.shop":                         {service: users("shop")},
		"kubernetes:///users.shop:grpc":                    {service: users("shop"), port: named},
		"kubernetes:///users.shop:8080":                    {service: users("shop"), port: numbered},
		"kubernetes:///users.shop.svc":                     {service: users("shop")},
		"kubernetes:///users.shop.svc.cluster.local:grpc":  {service: users("shop"), port: named},
		"kubernetes:///users.shop.svc.cluster.local.:8080": {service: users("shop"), port: numbered},
		"kubernetes:///users.shop.anything_at.ALL:8080":    {service: users("shop"), port: numbered},
		"kubernetes:users":                                 {service: users("home")},
		"kubernetes:users.shop:grpc":                       {service: users("shop"), port: named},
		"kubernetes:users.shop.svc.cluster.local:8080":     {service: users("shop"), port: numbered},
		"kubernetes:/users.shop:grpc":                      {service: users("shop"), port: named},
		// The authority is the namespace.
		"kubernetes://shop/users":                             {service: users("shop")},
		"kubernetes://shop/users:grpc":                        {service: users("shop"), port: named},
		"kubernetes://shop/users:8080":                        {service: users("shop"), port: numbered},
		"kubernetes://shop/users.shop:8080":                   {service: users("shop"), port: numbered},
		"kubernetes://shop/users.shop.svc.cluster.local:grpc": {service: users("shop"), port: named},
		// The authority is the whole target.
		"kubernetes://users":                              {service: users("home")},
		"kubernetes://users/":                             {service: users("home")},
		"kubernetes://users:8080":                         {service: users("home"), port: numbered},
		"kubernetes://users:8080/":                        {service: users("home"), port: numbered},
		"kubernetes://users.shop":                         {service: users("shop")},
		"kubernetes://users.shop/":                        {service: users("shop")},
		"kubernetes://users.shop:8080":                    {service: users("shop"), port: numbered},
		"kubernetes://users.shop:8080/":                   {service: users("shop"), port: numbered},
		"kubernetes://users.shop.svc.cluster.local:8080/": {service: users("shop"), port: numbered},
		// Names that look like ports.
		"kubernetes:///80.443:1":    {service: serviceKey{namespace: "443", name: "80"}, port: port{number: 1}},
		"kubernetes:///users:65535": {service: users("home"), port: port{number: 65535}},
		"kubernetes:///users:8080a": {service: users("home"), port: port{name: "8080a"}},
	} {
		got, err := parseTarget(target(t, text), "home")
		if assert.NoError(t, err, text) {
			assert.Equal(t, want, got, text)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"kubernetes:///":                         "names no service",
		"kubernetes://":                          "names no service",
		"kubernetes:///:8080":                    `"" cannot be the name of a service`,
		"kubernetes:///users:":                   "the port after the colon is empty",
		"kubernetes://users.shop:":               "the port after the colon is empty",
		"kubernetes:///users.":                   "the namespace after the first dot",
		"kubernetes:///users.:8080":              "the namespace after the first dot",
		"kubernetes:///users..svc":               "the namespace after the first dot",
		"kubernetes:///.shop":                    `"" cannot be the name of a service`,
		"kubernetes:///users:80:90":              "two colons",
		"kubernetes:///users:0":                  "not between 1 and 65535",
		"kubernetes:///users:65536":              "not between 1 and 65535",
		"kubernetes:///users:99999999999999999":  "not between 1 and 65535",
		"kubernetes:///users:-1":                 "cannot be the name of a port",
		"kubernetes:///users:GRPC":               "cannot be the name of a port",
		"kubernetes:///shop/users":               `has a "/" in it`,
		"kubernetes:///users:8080/":              `has a "/" in it`,
		"kubernetes://shop/users/more":           `has a "/" in it`,
		"kubernetes://shop:1/users:80":           `port after the authority "shop:1" and a path besides`,
		"kubernetes://users.shop:80/ignored":     `port after the authority "users.shop:80" and a path besides`,
		"kubernetes://shop/users.other":          `names two namespaces, "shop" and "other"`,
		"kubernetes://shop/users.other.svc:8080": `names two namespaces, "shop" and "other"`,
		"kubernetes://users.shop/users":          `"users.shop" cannot be the name of a namespace`,
		"kubernetes:///Users.shop":               `"Users" cannot be the name of a service`,
		"kubernetes:///users.Shop":               `"Shop" cannot be the name of a namespace`,
		"kubernetes:///users_v2":                 `"users_v2" cannot be the name of a service`,
		"kubernetes:///a&labelSelector=x":        "cannot be the name of a service",
		"kubernetes:///a,app=x":                  "cannot be the name of a service",
		"kubernetes:///a%26labelSelector=x":      "cannot be the name of a service",
		"kubernetes:///users?a=b":                `"?" and "#" have no meaning`,
		"kubernetes:///users?":                   `"?" and "#" have no meaning`,
		"kubernetes:///users#a":                  `"?" and "#" have no meaning`,
		"kubernetes://me@users":                  `"@" has no meaning`,
		"kubernetes://[::1]:80":                  "two colons",
	} {
		_, err := parseTarget(target(t, text), "home")
		if assert.Error(t, err, text) {
			assert.Contains(t, err.Error(), why, text)
			assert.Contains(t, err.Error(), "kubernetes: target ", text)
		}
	}
}

func TestTargetErrorHidesPassword(t *testing.T) {
	_, err := parseTarget(target(t, "kubernetes://me:hunter2@users"), "home")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hunter2")
}

func TestAuthority(t *testing.T) {
	b := newTestBuilder(t, Config{REST: restNowhere(), Namespace: "home"}, quick())
	for text, want := range map[string]string{
		"kubernetes:///users":                        "users.home",
		"kubernetes:///users:grpc":                   "users.home",
		"kubernetes:///users.shop:8080":              "users.shop:8080",
		"kubernetes://shop/users:8080":               "users.shop:8080",
		"kubernetes:///users.shop.svc.cluster.local": "users.shop",
		"kubernetes:///users:80:90":                  "users:80:90", // refused by Build
	} {
		assert.Equal(t, want, b.OverrideAuthority(target(t, text)), text)
	}
}
