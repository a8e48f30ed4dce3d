#!/usr/bin/env bash
# The versions of the modules.
#
#   ./release.sh tidy [-diff]   go mod tidy in every module, the others taken from this checkout
#   ./release.sh v0.3.0         set the version in every go.mod, go.work, CHANGELOG.md and the pages, commit, tag
#   ./release.sh notes v0.3.0   print what CHANGELOG.md says of the version
#   ./release.sh tags v0.3.0    print the tags of the version
#
# Nothing is pushed. The branch and the tags go out together: git push --atomic origin HEAD $(./release.sh tags v0.3.0)
set -euo pipefail
cd "$(dirname "$0")"

root=github.com/quorate/quorate
# The modules that others require and install, by folder. Tags are FOLDER/VERSION.
modules=(. resolver/kubernetes observe/prometheus observe/otel adapters/kratos adapters/gozero lab cmd)
# The shim is named as the official client; its version begins with that of the API that it has.
shim=compat/clientv3 api=v3.7.3
# go.mod files that count in a checkout only.
inner=(compat/go.mod conformance/go.mod lab/kube/apiserver/{go,overshim}.mod lab/servers/{etcd3*,kine}/go.mod)

module() { if [ "$1" = . ]; then echo $root; else echo "$root/$1"; fi; }

files() {
	local m
	for m in "${modules[@]}" $shim; do echo "$m/go.mod"; done
	printf '%s\n' "${inner[@]}"
}

# tidy FILE [-diff]: no file of what is published replaces its neighbours; here they are replaced for the moment.
tidy() {
	local file=$1 sum=${1%.mod}.sum tmp m add=() drop=()
	tmp=$(mktemp -d)
	cp "$file" "$tmp/go.mod"
	[ ! -f "$sum" ] || cp "$sum" "$tmp/go.sum"
	for m in "${modules[@]}"; do
		grep -q "$(module "$m") => " "$file" || { add+=("-replace=$(module "$m")=$PWD/$m"); drop+=("-dropreplace=$(module "$m")"); }
	done
	go mod edit "${add[@]}" "$tmp/go.mod"
	(cd "$(dirname "$file")" && GOWORK=off go mod tidy -modfile="$tmp/go.mod" "${@:2}") || { echo "$file is not tidy: ./release.sh tidy" >&2; return 1; }
	if [ $# = 1 ]; then
		go mod edit "${drop[@]}" "$tmp/go.mod"
		cp "$tmp/go.mod" "$file"
		[ ! -f "$tmp/go.sum" ] || cp "$tmp/go.sum" "$sum"
	fi
	rm -r "$tmp"
}

# require VERSION: in all files, what the modules require of each other.
require() {
	local file m line edits
	for file in $(files); do
		edits=()
		for m in $(sed -nE "s#^(require)?[[:space:]]*($root[^ ]*) v.*#\2#p" "$file"); do edits+=("-require=$m@$1"); done
		[ ${#edits[@]} = 0 ] || go mod edit "${edits[@]}" "$file"
	done
	edits=()
	while read -r m line; do edits+=("-dropreplace=$m@${line%% *}" "-replace=$m@$1=${line##* }"); done < <(grep -oE "$root[^ ]* v[^ ]* => .*" go.work)
	go work edit "${edits[@]}"
}

# pages VERSION: the version of the shim and of what it forwards to, wherever a page names it.
pages() {
	local file
	for file in README.md docs/*.md compat/README.md; do
		sed -i.bak -E "s/(${api//./\\.}-quorate\.|Quorate )[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]*[0-9A-Za-z])?/\1${1#v}/g" "$file" && rm "$file.bak"
	done
}

tags() {
	local m
	echo "$1"
	for m in "${modules[@]:1}"; do echo "$m/$1"; done
	echo "$shim/$api-quorate.${1#v}"
}

notes() { awk -v begin="## ${1#v} " '/^## /{inside = index($0 " ", begin) == 1; next} inside' CHANGELOG.md; }

release() {
	local tag
	[[ $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || { echo "$1 is no version: v1.2.3 or v1.2.3-rc.1" >&2; exit 2; }
	[ -z "$(git status --porcelain)" ] || { echo "the checkout has changes" >&2; exit 1; }
	[ -n "$(notes vUnreleased | tr -d '[:space:]')" ] || { echo "CHANGELOG.md says nothing below Unreleased" >&2; exit 1; }
	require "$1"
	pages "$1"
	sed -i.bak "s/^## Unreleased$/&\n\n## ${1#v} - $(date -u +%F)/" CHANGELOG.md && rm CHANGELOG.md.bak
	git commit -qam "$1"
	for tag in $(tags "$1"); do git tag "$tag"; done
	echo "$1 is tagged: git push --atomic origin HEAD \$(./release.sh tags $1)"
}

case ${1-} in
tidy) for file in $(files); do tidy "$file" "${@:2}"; done ;;
notes | tags) "$1" "$2" ;;
v*) release "$1" ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
