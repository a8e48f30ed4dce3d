package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWithoutABrowserTheCheckFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("BROWSER", "")
	err := run(t.Context(), "")
	require.ErrorContains(t, err, "no browser found, looked for chromium, ")
	require.ErrorContains(t, err, "install chromium, or set BROWSER")
	t.Setenv("BROWSER", "netscape")
	require.ErrorContains(t, run(t.Context(), ""), "looked for netscape: ")
}

func TestWhatTheProbeFoundIsRead(t *testing.T) {
	wide := visit{"wide", 1280, false}
	f, err := findingIn([]byte(`<html data-probe='{"charts":5,"dark":false,"width":1280,"wrong":[]}'><body></body></html>`))
	require.NoError(t, err)
	assert.Equal(t, 5, f.Charts)
	require.NoError(t, f.evaluate(wide))

	f.Wrong = []string{"one", "two"}
	require.EqualError(t, f.evaluate(wide), "one\ntwo")
	f.Wrong, f.Dark = nil, true
	require.ErrorContains(t, f.evaluate(wide), "the browser did not do as it was told")

	_, err = findingIn([]byte(`<html data-error="boom"></html>`))
	require.ErrorContains(t, err, "the probe did not come to its end")
	require.ErrorContains(t, err, "boom")
}

func TestThePageOfTheSampleIsChecked(t *testing.T) {
	page, err := read("")
	require.NoError(t, err)
	assert.True(t, bytes.HasPrefix(page, []byte("<!doctype html>")))
	_, err = read("nowhere.html")
	require.Error(t, err)
	_, err = browser("true").probe(t.Context(), []byte("<html>"), visit{})
	require.ErrorContains(t, err, "the page has no end of its body")
}
