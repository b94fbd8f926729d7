#!/bin/sh
# The main job on a local cluster, from nothing to nothing: `make demo`.
# Whatever happens, the cluster is taken down and its directory removed.
set -eu

examples=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/gsched-demo.XXXXXX")
cluster=$work/cluster

tidy() {
    status=$?
    trap - EXIT
    trap '' INT TERM HUP
    if [ -e "$cluster/gsched.toml" ]; then
        [ $status -eq 0 ] || [ $status -ge 129 ] || { echo "demo: failed with status $status; the daemons' last words:" >&2
            tail -n 5 "$cluster"/log/*.log >&2 || true; }
        gcancel -u "$(id -un)" >/dev/null 2>&1 || true
        gsched down --dir "$cluster" >/dev/null || status=1
    fi
    rm -rf "$work"
    exit $status
}
trap tidy EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '\n### %s\n' "$*"; }
run() {
    printf '$ %s\n' "$*"
    "$@"
}
# wait_for STATE JOB: until gqueue shows the job in that state (compact form), at most 30 s.
wait_for() {
    tries=0
    while [ "$(gqueue -h -t all -j "$2" -o %t)" != "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { echo "demo: error: job $2 is not $1 after 30 s" >&2; gqueue -t all; exit 1; }
        sleep 0.1
    done
}

say "A cluster of four pretended machines with 8 GPUs each, out of processes of yours"
run gsched up -d --dir "$cluster" --nodes 4 --simulate 8xH100-SXM
eval "$(gsched env --dir "$cluster")"
run ginfo --gpus

cd "$work"
cp "$examples/allreduce.py" "$examples/allreduce.sh" .
say "A filler takes three of the nodes; then a gang of 16 ranks asks for two whole nodes and has to wait"
run gsub -J filler -N 3 --gpus-per-node=8 -t 10 -o /dev/null --wrap 'until [ -e go ]; do sleep 0.05; done'
gang=$(gsub --parsable allreduce.sh)
printf '$ gsub allreduce.sh\nSubmitted batch job %s\n' "$gang"
wait_for R "$((gang - 1))"
run gqueue

say "The filler ends, the gang starts on both nodes at once"
touch go
wait_for R "$gang"
run gqueue
run gctl show job "$gang"
wait_for CD "$gang"

say "Every rank summed the numbers of all 16 over TCP: 0 + 1 + ... + 15 = 120"
run cat "allreduce-$gang.out"
[ "$(grep -c '^rank .*: 8 GPUs visible, sum 120$' "allreduce-$gang.out")" -eq 16 ] ||
    { echo "demo: error: not all 16 ranks have the right sum" >&2; exit 1; }

say "What it all took"
run gacct -o JobID,JobName,AllocNodes,AllocTRES%40,State,ExitCode,Elapsed
run gsched down --dir "$cluster"
