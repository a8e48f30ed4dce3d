package keepalive_test

import (
	"encoding/json"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/keepalive"
)

func TestTextComesBack(t *testing.T) {
	pairs := presets()
	pairs["zero"] = keepalive.Pair{}
	pairs["everything"] = keepalive.Pair{
		Client: keepalive.Client{Time: time.Minute, Timeout: 2 * time.Second, PermitWithoutStream: true},
		Server: keepalive.Server{
			MinTime: 3 * time.Second, PermitWithoutStream: true, Time: 4 * time.Second, Timeout: 5 * time.Second,
			MaxConnectionIdle: 6 * time.Second, MaxConnectionAge: 7 * time.Second, MaxConnectionAgeGrace: 8 * time.Second,
		},
		IdleTimeout: 90 * time.Second, LongestCall: 1500 * time.Millisecond,
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			parsed, err := keepalive.Parse(pair.String())
			require.NoError(t, err)
			assert.Equal(t, pair, parsed)

			text, err := json.Marshal(pair)
			require.NoError(t, err)
			var decoded keepalive.Pair
			require.NoError(t, json.Unmarshal(text, &decoded))
			assert.Equal(t, pair, decoded)
		})
	}
}

func TestParse(t *testing.T) {
	changed := keepalive.LoadBalancer().Pair()
	changed.Server.MaxConnectionAge = time.Hour
	changed.Client.PermitWithoutStream = false
	for text, want := range map[string]keepalive.Pair{
		"datacenter":    keepalive.Datacenter().Pair(),
		"load-balancer": keepalive.LoadBalancer().Pair(),
		"stock":         keepalive.Stock().Pair(),
		"etcd":          keepalive.Etcd().Pair(),
		"default":       {},
		"  load-balancer\n server.max_connection_age=1h  client.permit_without_stream=false ": changed,
		"client.time=10s server.min_time=10s":                                                 {Client: keepalive.Client{Time: 10 * time.Second}, Server: keepalive.Server{MinTime: 10 * time.Second}},
	} {
		got, err := keepalive.Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                                     `empty text: write "default"`,
		"lan":                                  `no preset "lan": write one of default, datacenter, load-balancer, stock, etcd`,
		"client.tim=1s":                        `no setting "client.tim": it may be client.time, client.timeout,`,
		"stock etcd":                           `no setting "etcd"`,
		"client.time=10":                       `client.time: "10"; it must be a duration like 10s`,
		"client.time=10s client.time=11s":      "client.time is there twice",
		"client.permit_without_stream=maybe":   `client.permit_without_stream: "maybe"; it must be true or false`,
		"default client.permit_without_stream": "it must be true or false",
		"client.time=10s":                      "too_many_pings",
	} {
		got, err := keepalive.Parse(text)
		require.ErrorContains(t, err, want, text)
		assert.Zero(t, got, text)
	}
}

func TestPairIsAFlag(t *testing.T) {
	pair := keepalive.Datacenter().Pair()
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&pair, "keepalive", pair, "keepalive of both ends")
	require.Error(t, flags.Parse([]string{"-keepalive", "client.time=10s"}))
	assert.Equal(t, keepalive.Datacenter().Pair(), pair, "a refused value changes nothing")
	require.NoError(t, flags.Parse([]string{"-keepalive", "stock"}))
	assert.Equal(t, keepalive.Stock().Pair(), pair)
}

func FuzzParse(f *testing.F) {
	for _, pair := range presets() {
		f.Add(pair.String())
	}
	f.Add("load-balancer longest_call=1s")
	f.Fuzz(func(t *testing.T, text string) {
		pair, err := keepalive.Parse(text)
		if err != nil {
			return
		}
		require.NoError(t, pair.Validate())
		again, err := keepalive.Parse(pair.String())
		require.NoError(t, err)
		require.Equal(t, pair, again)
	})
}
