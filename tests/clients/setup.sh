#!/bin/sh
# Installs what the tests use and is no Python package: kcat, kafkajs, the Java client, Kafka's own tools, franz-go,
# Spark's Kafka connector, and a browser.
# Run it as often as you like: what is there is left alone. A client that cannot be installed is named, and its tests
# are skipped by that name; with CHRONIK_REQUIRE_CLIENTS=1 it is an error instead.
set -u

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${CHRONIK_CLIENT_CACHE:-$here/../../.cache}"
cache=$(cd "${CHRONIK_CLIENT_CACHE:-$here/../../.cache}" && pwd)
missing=0

not_available() {
    echo "clients: $1 is not available: $2" >&2
    missing=1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_package() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null 2>&1 ||
        { as_root apt-get update -qq >/dev/null 2>&1 &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null 2>&1; }
}

install_kcat() {
    command -v kcat >/dev/null && return
    command -v apt-get >/dev/null || { not_available kcat "it comes as a Debian package, and there is no apt-get"; return; }
    install_package kcat || not_available kcat "apt-get install kcat failed"
}

# A bonus: the browser that one test looks at the report with.
install_chromium() {
    command -v chromium >/dev/null || command -v google-chrome >/dev/null && return
    command -v apt-get >/dev/null && install_package chromium ||
        echo "clients: the report is not looked at in a browser: there is no chromium" >&2
}

install_kafkajs() {
    command -v npm >/dev/null || { not_available kafkajs "there is no npm"; return; }
    # The lock file is copied when the installation is whole, so a half one is done again.
    cmp -s "$here/node/package-lock.json" "$here/node/node_modules/.installed" && return
    (cd "$here/node" && npm ci --silent --no-audit --no-fund && cp package-lock.json node_modules/.installed) ||
        not_available kafkajs "npm ci failed"
}

# install_jars NAME: the jars of java/NAME/pom.xml, into a folder that carries the version.
install_jars() {
    pom=$here/java/$1/pom.xml
    version=$(sed -n 's:^  <version>\(.*\)</version>:\1:p' "$pom")
    jars=$cache/kafka-$1-$version
    [ -d "$jars" ] && return
    command -v java >/dev/null || { not_available "kafka-$1" "there is no java"; return; }
    command -v mvn >/dev/null || { not_available "kafka-$1" "there is no mvn"; return; }
    rm -rf "$jars.part"
    mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars.part" &&
        mv "$jars.part" "$jars" || not_available "kafka-$1" "Maven could not fetch it"
}

# A bonus: where there is no Go, nothing is missing.
build_franz_go() {
    command -v go >/dev/null || { echo "clients: franz-go is left out: there is no go" >&2; return; }
    (cd "$here/go" && go build -o "$cache/franz-go-checks" . && go build -o "$cache/franz-go-secured" ./secured) || echo "clients: franz-go is left out: go build failed" >&2
}

echo '*' >"$cache/.gitignore"
install_kcat
install_kafkajs
install_jars client
install_jars tools
install_jars connector
install_chromium
build_franz_go

if [ "$missing" = 1 ] && [ "${CHRONIK_REQUIRE_CLIENTS:-0}" = 1 ]; then exit 1; fi
exit 0
