#!/usr/bin/env bash
# twistd: a function registered with atexit does not run after SIGTERM, although the reactor shuts down in order.
#
# Guess: twistd handles SIGTERM, stops its services and returns from main, so Python runs its atexit functions.
# Seen (Twisted 26.10.0): after its services and shutdown triggers have run, twistd restores the default handler and
# sends itself the same signal. It ends by SIGTERM (status 143 in a shell), and no atexit function runs. If the
# application calls reactor.stop() instead, they run and the status is 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install twisted==26.10.0
cat >"$folder/app.tac" <<'PY'
import atexit
import os
import signal

from twisted.application import service
from twisted.internet import reactor


def note(text):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(text + "\n")


class Noting(service.Service):
    def startService(self):
        if os.environ["END"] == "SIGTERM":
            reactor.callLater(0.2, os.kill, os.getpid(), signal.SIGTERM)
        else:
            reactor.callLater(0.2, reactor.stop)

    def stopService(self):
        note("service stopped")


atexit.register(note, "atexit")
reactor.addSystemEventTrigger("after", "shutdown", note, "after shutdown")
application = service.Application("noting")
Noting().setServiceParent(application)
PY
cd "$folder"
run() {
    local status=0
    END=$1 NOTES=$folder/$1 timeout 60 venv/bin/twistd -n --pidfile= --logfile="$folder/log" -y app.tac || status=$?
    echo "$1: status $status, $(paste -sd, "$1")"
}
"$folder/venv/bin/twistd" --version | sed -n 1p
seen=$(run SIGTERM; run stop)
echo "$seen"
[[ $seen == "SIGTERM: status 143, service stopped,after shutdown
stop: status 0, service stopped,after shutdown,atexit" ]]
