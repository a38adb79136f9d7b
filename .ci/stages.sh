# Sourced by .ci/run and .ci/nightly: how a stage is run, and what each stage does. Stages that fail do not stop the later
# ones: what failed is said again at the end, and the last line counts tests and stages together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
export CI=true PYTHONUNBUFFERED=1 PYTHON="${PYTHON:-python3}" PATH="$PATH:$PWD/.venv-uv/bin"
# As in the Makefile.
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS-1}"
unset PYTHONDONTWRITEBYTECODE

results=$PWD/build/ci
rm -rf "$results"
mkdir -p "$results"
failed_stages=()
report=()

# stage NAME COMMAND...: run a command under a heading, keep what it says, time it, and remember whether it failed.
stage() {
    local name=$1 started=$SECONDS verdict=ok
    shift
    printf '\n==== %s: %s\n' "$name" "$*"
    "$@" > >(tee "$results/$name.out") 2>&1 || verdict=FAILED
    # A broker that goes on may hold the output open.
    timeout 5 tail --pid=$! -f /dev/null || true
    [[ $verdict == ok ]] || failed_stages+=("$name")
    report+=("$(printf '%-14s %-7s %4d s' "$name" "$verdict" $((SECONDS - started)))")
    printf '==== %s: %s after %d s\n' "$name" "$verdict" $((SECONDS - started))
}

# tested NAME TARGET ARGUMENTS: make a target that runs pytest, which leaves its counts behind.
tested() {
    PYTEST_ADDOPTS="--junitxml=$results/$1.xml" make --no-print-directory "$2" ARGS="${3-}"
}

# background NAME COMMAND...: begin a stage that runs beside the others, where they leave a core free.
declare -A running=()
background() {
    local name=$1 started=$SECONDS status=0
    shift
    {
        "$@" || status=$?
        printf '==== %s: status %d after %d s beside the others\n' "$name" "$status" $((SECONDS - started))
        exit "$status"
    } >"$results/$name.log" 2>&1 &
    running[$name]=$!
}

# finished NAME: wait for what was begun, show what it said, and take its status.
finished() {
    local status=0
    wait "${running[$1]}" || status=$?
    unset "running[$1]"
    cat "$results/$1.log"
    return "$status"
}

brokers() {
    scripts/brokers install && scripts/brokers start
}

# uv is not needed, but builds each environment in seconds, where pip takes minutes.
install() {
    "$PYTHON" -m venv .venv-uv && .venv-uv/bin/python -m pip install --quiet uv || return
    make --no-print-directory .venv/.stamp-check
}

# The two type checkers take longest, and each uses one core.
check() {
    local status=0
    background pyright make --no-print-directory pyright
    make --no-print-directory --keep-going check WITHOUT=pyright || status=$?
    finished pyright || status=$?
    return "$status"
}

vectors() {
    .venv/bin/python -m tests.conformance.run_vectors tests/conformance/vectors_open.jsonl
}

spark() {
    tested spark test-all "-m 'spark and not interop' --ignore=tests/crashes"
}

# Tests of the docs and of the source's layout are run once, by `make test`.
pythons() {
    ARGS="-p no:cacheprovider --ignore=tests/docs --ignore=tests/architecture" scripts/pythons
}

# Slow tests that count calls and bytes run two at a time; those that look at a clock, or start programs, one by one.
counted="tests/client tests/conformance tests/testing"
slow() {
    tested slow test-all "-m 'slow and not spark and not interop' -n 2 $counted"
}
timed() {
    tested timed test-all "-m 'slow and not spark and not interop' --ignore=tests/crashes ${counted//tests/--ignore=tests}"
}

# On each loop. Each night has a block of seeds of its own.
simulate() {
    local loop status=0
    for loop in trio asyncio; do
        make --no-print-directory simulate LOOP=$loop "$@" || status=$?
    done
    return "$status"
}

# A cluster of two workers for the length of one pipeline, in which one of the executors is killed.
cluster() {
    local status=0
    scripts/spark-cluster start || return
    make --no-print-directory pipeline MASTER=spark://127.0.0.1:44613 KILL_EXECUTOR=1 ROWS=40000 || status=$?
    scripts/spark-cluster stop
    return "$status"
}

clean_up() {
    [[ ${#running[@]} -eq 0 ]] || kill "${running[@]}" 2>/dev/null || true
    scripts/brokers stop >"$results/brokers-stop.log" 2>&1 || cat "$results/brokers-stop.log"
}
trap clean_up EXIT

# Say how long each stage took and what failed; the status of this is the status of the run.
summary() {
    printf '\n==== stages\n'
    printf '%s\n' "${report[@]}"
    printf '\n'
    "$PYTHON" .ci/summary.py "$results" "${failed_stages[@]}"
}
