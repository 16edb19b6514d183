#!/usr/bin/env bash
# coreutils: `timeout` that gets one signal sends its command two.
#
# Guess: what runs under `timeout` gets each signal once, so that a second SIGTERM means that a person insists.
# Seen (coreutils 9.1): timeout signals the command, and then the whole process group of which the command is a part.
# The kernel merges two SIGTERMs only if the command has not handled the first when the second comes: a program that
# drains at the first and stops at once at the second cuts its work short now and then. A real-time signal, which is
# queued instead, shows both each time. With --foreground only the command gets the signal, once.
set -euo pipefail
timeout --version | head -1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/command.py" <<'PY'
import signal
import sys
import time

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
print("ready", flush=True)
signal.sigwait([signal.SIGRTMIN])
time.sleep(0.3)
count = 1
while signal.SIGRTMIN in signal.sigpending():
    signal.sigwait([signal.SIGRTMIN])
    count += 1
print(count, file=sys.stderr)
PY
signals() { # how many signals of one the command gets
    coproc timeout "$@" --signal RTMIN 10 python3 "$folder/command.py" 2> "$folder/count"
    local pid=$COPROC_PID
    read -r <&"${COPROC[0]}"
    kill -RTMIN "$pid"
    wait "$pid" || true
    cat "$folder/count"
}
whole_group=$(signals)
foreground=$(signals --foreground)
echo "signals of one: $whole_group, with --foreground: $foreground"
test "$whole_group" = 2 -a "$foreground" = 1
