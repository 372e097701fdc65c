# What .ci/run and .ci/full share. Sourced, never run.
# shellcheck shell=bash

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
results=$scratch/results
: >"$results"

# debian installs the packages of a Debian machine that are not there yet.
debian() {
	local need=() package
	for package in "$@"; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || need+=("$package")
	done
	[[ ${#need[@]} -eq 0 ]] && return
	if ! command -v apt-get >/dev/null; then
		echo "missing: ${need[*]}" >&2
		return 1
	fi
	local as=()
	[[ $(id -u) -eq 0 ]] || as=(sudo)
	"${as[@]}" apt-get update -q
	"${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${need[@]}"
}

# install_missing puts gcc, libc's headers and git on a machine that lacks them.
# Go itself must be there.
install_missing() {
	if ! command -v go >/dev/null; then
		echo 'Go is missing: see go.mod for the version' >&2
		exit 1
	fi
	command -v gcc >/dev/null || debian gcc
	[[ -e /usr/include/stdlib.h ]] || debian libc6-dev
	command -v git >/dev/null || debian git
}

# sources lists the files of the project that match a pattern: the tracked ones
# and those that git does not ignore.
sources() {
	git ls-files --cached --others --exclude-standard --deduplicate -- "$@" |
		while IFS= read -r file; do if [[ -f $file ]]; then printf '%s\n' "$file"; fi; done
}

# contrib lists the folders of the nested modules: the bridges to heavier ones, and the
# example that uses them.
contrib() {
	sources 'contrib/*go.mod' 'examples/*go.mod' | xargs -r dirname
}

# gotest runs go test and keeps its results for the closing line.
gotest() {
	go test -json -count=1 "$@" | "$scratch/testcount" -into "$results"
}

# run_leg runs leg_NAME, says how it went and notes a failure in $failed. It must
# be called as a plain command: under "if", "||" or "!" errexit would be off in
# the leg, and a leg would go on behind its first failure.
run_leg() {
	local leg=$1 began=$SECONDS code failures
	failures=$(grep -c '^fail ' "$results" || true)
	printf '\n== %s\n' "$leg"
	set +e
	(
		set -e
		"leg_$leg"
	)
	code=$?
	set -e
	if [[ $code -ne 0 && $(grep -c '^fail ' "$results" || true) -eq $failures ]]; then
		printf 'fail leg %s\n' "$leg" >>"$results"
	fi
	local verdict=ok
	[[ $code -eq 0 ]] || verdict=FAILED
	printf '== %s: %s, %d s\n' "$leg" "$verdict" $((SECONDS - began))
	printf '%-6s %-6s %4d s\n' "$leg" "$verdict" $((SECONDS - began)) >>"$scratch/legs"
	[[ $code -eq 0 ]] || failed=1
}

# main ALL... -- CHOSEN... runs the chosen legs, or all, then prints a summary
# and the closing line. It fails if a leg did.
main() {
	local all=() leg
	failed=0
	while [[ $1 != -- ]]; do
		all+=("$1")
		shift
	done
	shift
	local chosen=("$@")
	[[ ${#chosen[@]} -gt 0 ]] || chosen=("${all[@]}")
	for leg in "${chosen[@]}"; do
		if [[ " ${all[*]} " != *" $leg "* ]]; then
			printf 'no leg is called %s; there are: %s\n' "$leg" "${all[*]}" >&2
			exit 2
		fi
	done

	install_missing
	CGO_ENABLED=0 go build -o "$scratch/testcount" ./internal/testcount
	for leg in "${chosen[@]}"; do
		run_leg "$leg"
	done
	printf '\n'
	cat "$scratch/legs"
	[[ $(type -t summary) != function ]] || summary
	"$scratch/testcount" -close "$results" || failed=1
	exit "$failed"
}
