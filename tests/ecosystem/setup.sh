#!/bin/sh
# Installs the programs that tests/ecosystem runs: Kafka Streams, Connect and MirrorMaker from Maven Central, and quixstreams
# from PyPI into a virtual environment of its own. Run it as often as you like: what is there is left alone. What cannot be
# installed is named, and its tests are skipped by that name; with CHRONIK_REQUIRE_CLIENTS=1 it is an error instead.
set -u

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${CHRONIK_CLIENT_CACHE:-$here/../../.cache}"
cache=$(cd "${CHRONIK_CLIENT_CACHE:-$here/../../.cache}" && pwd)
python=${1:-python3}
missing=0

not_available() {
    echo "ecosystem: $1 is not available: $2" >&2
    missing=1
}

install_jars() {
    pom=$here/java/pom.xml
    version=$(sed -n 's:^  <version>\(.*\)</version>:\1:p' "$pom")
    jars=$cache/kafka-ecosystem-$version
    # The pom is copied when all jars are there, so a half set, or one of another pom, is fetched again.
    cmp -s "$pom" "$jars/pom.xml" && return
    command -v java >/dev/null || { not_available "kafka ecosystem" "there is no java"; return; }
    command -v mvn >/dev/null || { not_available "kafka ecosystem" "there is no mvn"; return; }
    rm -rf "$jars"
    { mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars" &&
        cp "$pom" "$jars/pom.xml"; } || not_available "kafka ecosystem" "Maven could not fetch it"
}

install_quixstreams() {
    venv=$cache/quixstreams
    cmp -s "$here/quixstreams.txt" "$venv/installed.txt" && return
    { "$python" -m venv --clear "$venv" &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$here/quixstreams.txt" &&
        cp "$here/quixstreams.txt" "$venv/installed.txt"; } || not_available quixstreams "pip could not install it"
}

echo '*' >"$cache/.gitignore"
install_jars
install_quixstreams

if [ "$missing" = 1 ] && [ "${CHRONIK_REQUIRE_CLIENTS:-0}" = 1 ]; then exit 1; fi
exit 0
