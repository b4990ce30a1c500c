/* hiredis.c -- counting with hiredis: a page counter, a rate limiter, an id generator, a pipeline, a
 * transaction, a second connection. The same program runs against Redis and against tally. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

static redisContext *connected(void)
{
    const struct timeval wait = {10, 0};
    redisContext *context =
        redisConnectWithTimeout(getenv("REDIS_HOST"), atoi(getenv("REDIS_PORT")), wait);
    redisReply *reply =
        redisCommand(context, "AUTH %s %s", getenv("REDIS_USER"), getenv("REDIS_PASS"));
    printf("auth %s\n", reply->str);
    freeReplyObject(reply);
    return context;
}

static long long number(redisContext *context, const char *command)
{
    redisReply *reply = redisCommand(context, command);
    long long value = reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : reply->integer;
    if (reply->type == REDIS_REPLY_ERROR) printf("error %s\n", reply->str);
    freeReplyObject(reply);
    return value;
}

static int is_allowed(redisContext *context)
{
    long long count = number(context, "INCR rate:alice");
    if (count == 1) number(context, "EXPIRE rate:alice 60");
    return count <= 3;
}

int main(void)
{
    redisContext *context = connected();
    redisReply *reply;
    int allowed = 0;
    for (int i = 0; i < 3; i++)
        number(context, "INCR page:home");
    printf("page %lld\n", number(context, "GET page:home"));
    for (int i = 0; i < 5; i++)
        allowed += is_allowed(context);
    long long left = number(context, "TTL rate:alice");
    printf("allowed %d of 5, %s\n", allowed,
           left > 50 && left <= 60 ? "for a minute" : "not for a minute");
    long long last = number(context, "INCRBY ids 100");
    printf("ids %lld to %lld\n", last - 99, last);
    for (int i = 0; i < 50; i++)
        redisAppendCommand(context, "INCR piped");
    for (int i = 0; i < 50 && redisGetReply(context, (void **)&reply) == REDIS_OK; i++) {
        if (i == 49) printf("piped %lld\n", reply->integer);
        freeReplyObject(reply);
    }
    number(context, "MULTI");
    number(context, "INCR a");
    number(context, "INCRBY b 5");
    number(context, "GET a");
    reply = redisCommand(context, "EXEC");
    printf("multi %lld %lld %s\n", reply->element[0]->integer, reply->element[1]->integer,
           reply->element[2]->str);
    freeReplyObject(reply);
    redisFree(context);
    context = connected();
    printf("again %lld\n", number(context, "GET page:home"));
    redisFree(context);
    return 0;
}
