#!/usr/bin/env bash
# Installs emulators of cloud storage and a collector of traces from the ordinary registries, and
# runs the conformance tests against the former.
#
#   crates/backend/tests/emulators.sh             install what is missing, then run the tests
#   crates/backend/tests/emulators.sh --install   only install
#
# Needs python3 with venv, Go, and npm; not root. Installs into target/emulators (or
# $FOREREAD_EMULATORS). Where a tool is missing, the tests that need it print that they are
# skipped; with FOREREAD_REQUIRE_CLIENTS=1 that is a failure. nginx comes from the system.
set -euo pipefail
cd "$(dirname "$0")/../../.."

folder=${FOREREAD_EMULATORS:-$PWD/target/emulators}
mkdir -p "$folder"

# Pinned, so that a later release of an emulator breaks no test.
moto=5.2.5 range_server=1.4.0 fake_gcs=v1.56.1 azurite=3.35.0

missing=()
need() {
    command -v "$1" >/dev/null || { missing+=("$1 (for $2)"); return 1; }
}

stamp="$folder/python/moto-$moto-$range_server"
if [[ ! -e $stamp ]] && need python3 'S3 and HTTP'; then
    python3 -m venv "$folder/python"
    "$folder/python/bin/pip" install --quiet "moto[server,s3]==$moto" "rangehttpserver==$range_server"
    touch "$stamp"
fi
stamp="$folder/bin/fake-gcs-server-$fake_gcs"
if [[ ! -e $stamp ]] && need go 'GCS'; then
    GOBIN="$folder/bin" GOFLAGS=-mod=mod go install "github.com/fsouza/fake-gcs-server@$fake_gcs"
    touch "$stamp"
fi
stamp="$folder/node/azurite-$azurite"
if [[ ! -e $stamp ]] && need npm 'Azure'; then
    npm install --silent --no-audit --no-fund --prefix "$folder/node" "azurite@$azurite"
    touch "$stamp"
fi
# Rebuilt when its pins change.
stamp="$folder/bin/collector-$(cksum < crates/monitor/tests/collector/go.sum | cut -d' ' -f1)"
if [[ ! -e $stamp ]] && need go 'traces'; then
    go build -C crates/monitor/tests/collector -o "$folder/bin/collector" .
    touch "$stamp"
fi
if ((${#missing[@]})); then
    printf 'emulators.sh: missing: %s\n' "${missing[*]}" >&2
    [[ ${FOREREAD_REQUIRE_CLIENTS:-} != 1 ]]
fi

if [[ ${1:-} != --install ]]; then
    FOREREAD_EMULATORS=$folder cargo test --package foreread-backend --test conformance
fi
