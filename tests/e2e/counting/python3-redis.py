"""Counting with redis-py: what hiredis.c does. The same program runs against Redis and against tally."""
import os
import redis


def connected():
    client = redis.Redis(host=os.environ["REDIS_HOST"], port=int(os.environ["REDIS_PORT"]), username=os.environ["REDIS_USER"],
                         password=os.environ["REDIS_PASS"], decode_responses=True)
    print("auth", "OK" if client.ping() else "?")
    return client


def is_allowed(client):
    count = client.incr("rate:alice")
    if count == 1:
        client.expire("rate:alice", 60)
    return count <= 3


client = connected()
for _ in range(3):
    client.incr("page:home")
print("page", client.get("page:home"))
allowed = sum(is_allowed(client) for _ in range(5))
print("allowed", allowed, "of 5,", "for a minute" if 50 < client.ttl("rate:alice") <= 60 else "not for a minute")
last = client.incrby("ids", 100)
print("ids", last - 99, "to", last)
with client.pipeline(transaction=False) as pipe:
    for _ in range(50):
        pipe.incr("piped")
    print("piped", pipe.execute()[-1])
with client.pipeline(transaction=True) as pipe:
    print("multi", *pipe.incr("a").incrby("b", 5).get("a").execute())
client.connection_pool.disconnect()
client = connected()
print("again", client.get("page:home"))
