#!/usr/bin/env bash
# A step for a build: rehearse the Score with the evidence of this build's runs, and fail when the receipt is worse than
# the baseline that is kept beside the code. The first run makes the baseline; commit it.
#
# Usage: gate.sh SCORE.json BASELINE.json BUNDLE.json…      (CHORUS names the binary, unless it is on the path)
set -euo pipefail
score=$1 baseline=$2
shift 2
chorus=${CHORUS:-chorus}
now=$(mktemp)
trap 'rm -f "$now"' EXIT
"$chorus" --json rehearse "$score" --evidence "$@" >"$now"
"$chorus" rehearse "$score" --evidence "$@"
"$chorus" verify "$now"
if [ ! -e "$baseline" ]; then
    cp "$now" "$baseline"
    echo "no baseline yet: wrote $baseline; commit it"
    exit 0
fi
"$chorus" receipt compare "$baseline" "$now"
