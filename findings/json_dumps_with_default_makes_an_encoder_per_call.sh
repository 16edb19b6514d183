#!/usr/bin/env bash
# Python: json.dumps() with any argument makes a new encoder at each call, which for a short document costs more than encoding.
#
# Guess: json.dumps(value, separators=...) or default=... costs about what json.dumps(value) does, as the arguments are the same.
# Seen (CPython 3.11.7): json.dumps(value) uses one encoder that the module keeps. With any argument other than a default,
# json.dumps makes a JSONEncoder for the call. Of a small dictionary it takes 1.3 to 2 times as long as the method `encode`
# of an encoder that is made once with the same arguments. So keep one: to_json = json.JSONEncoder(...).encode.
set -euo pipefail
python3 - <<'PY'
import json
import sys
import timeit

value = {"work_type": "mail", "payload": {"number": 7}}
made = []
plain = json.JSONEncoder.__init__


def counted(self, *args, **named):
    made.append(named)
    plain(self, *args, **named)


json.JSONEncoder.__init__ = counted
for _ in range(3):
    json.dumps(value)
assert made == [], made
for _ in range(3):
    json.dumps(value, separators=(",", ":"))
    json.dumps(value, default=str)
assert len(made) == 6, made
json.JSONEncoder.__init__ = plain
kept = json.JSONEncoder(separators=(",", ":")).encode
# In short turns, so that other processes disturb both alike.
turns = [
    (
        timeit.timeit(lambda: json.dumps(value, separators=(",", ":")), number=2000),
        timeit.timeit(lambda: kept(value), number=2000),
    )
    for _ in range(41)
]
ratio = sorted(each / once for each, once in turns)[20]
print(sys.version.split()[0], {"an encoder per call, of one that is kept": round(ratio, 2)})
assert ratio > 1.15, ratio
PY
