#!/bin/sh
# Counting with redis-cli: what hiredis.c does. The same program runs against Redis and against tally.
set -eu
cli() { redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" --user "$REDIS_USER" --pass "$REDIS_PASS" --no-auth-warning "$@"; }
connected() { [ "$(cli ping)" = PONG ] && echo "auth OK"; }
is_allowed() {
    count=$(cli incr rate:alice)
    [ "$count" != 1 ] || cli expire rate:alice 60 >/dev/null
    [ "$count" -le 3 ]
}

connected
for _ in 1 2 3; do cli incr page:home >/dev/null; done
echo "page $(cli get page:home)"
allowed=0
for _ in 1 2 3 4 5; do if is_allowed; then allowed=$((allowed + 1)); fi; done
left=$(cli ttl rate:alice)
if [ "$left" -gt 50 ] && [ "$left" -le 60 ]; then how="for a minute"; else how="not for a minute"; fi
echo "allowed $allowed of 5, $how"
last=$(cli incrby ids 100)
echo "ids $((last - 99)) to $last"
for _ in $(seq 50); do echo "incr piped"; done | cli | tail -n 1 | sed 's/^/piped /'
printf 'multi\nincr a\nincrby b 5\nget a\nexec\n' | cli | tail -n 3 | tr '\n' ' ' | sed 's/^/multi /; s/ $//'
echo
connected
echo "again $(cli get page:home)"
