/* follow.c -- see the header. */
#include "config/follow.h"

#include <inttypes.h>
#include <string.h>

static bool is_loopback(struct bytes host)
{
    return bytes_equal(host, BYTES("localhost")) || bytes_equal(host, BYTES("[::1]")) ||
           bytes_starts(host, BYTES("127."));
}

static bool is_port(struct bytes text)
{
    if (text.size == 0 || text.size > 5) return false;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    return true;
}

/* An IPv6 address stands in brackets and has colons of its own. */
static bool split_host(struct bytes text, struct bytes *host_out)
{
    const char *bracket =
        text.size && text.data[0] == '[' ? memchr(text.data, ']', text.size) : NULL;
    size_t from = bracket ? (size_t)(bracket - text.data) : 0;
    const char *colon = text.size ? memchr(text.data + from, ':', text.size - from) : NULL;
    size_t size = colon ? (size_t)(colon - text.data) : text.size;
    *host_out = bytes_of(text.data, size);
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] <= ' ' || strchr("/?#@\"\\", text.data[i])) return false;
    return size > 0 && (!colon || is_port(bytes_of(colon + 1, text.size - size - 1)));
}

enum address_fault config_address(struct bytes text)
{
    struct bytes host;
    bool safe = bytes_starts(text, BYTES("https://"));
    size_t skip = safe ? 8 : 7;
    if (!safe && !bytes_starts(text, BYTES("http://"))) return ADDRESS_MALFORMED;
    if (!split_host(bytes_of(text.data + skip, text.size - skip), &host)) return ADDRESS_MALFORMED;
    return safe || is_loopback(host) ? ADDRESS_GOOD : ADDRESS_INSECURE;
}

static void check_place(struct config_load *load, const char *where)
{
    const struct config *config = load->config;
    if (config->store_kind != CONFIG_STORE_EMBEDDED)
        config_error(load, where, "follow.url needs store.kind embedded");
    else if (config->store_lanes != 1)
        config_error(load, where, "follow.url needs store.lanes 1, not %" PRId64,
                     config->store_lanes);
    if (!config->follow_token[0])
        config_error(load, where,
                     "follow.url needs follow.token, a token of scope replica; better given as "
                     "TALLY_FOLLOW_TOKEN");
}

void config_check_follow(struct config_load *load)
{
    const struct config *config = load->config;
    const char *where = load->where[SETTING_ID_follow_url];
    char *url = config->follow_url;
    size_t size = strlen(url);
    if (config->replication_acks > 0 &&
        (config->store_kind != CONFIG_STORE_EMBEDDED || config->store_lanes != 1))
        config_error(load, load->where[SETTING_ID_replication_acks],
                     "replication.acks needs store.kind embedded and store.lanes 1");
    if (size == 0) return;
    if (url[size - 1] == '/') url[--size] = '\0';
    switch (config_address(bytes_of(url, size))) {
    case ADDRESS_MALFORMED:
        config_error(load, where,
                     "follow.url must be http://HOST:PORT or https://HOST:PORT of the primary");
        return;
    case ADDRESS_INSECURE:
        if (!config->follow_insecure)
            config_error(load, where,
                         "follow.url: between machines it must be https://, or set follow.insecure "
                         "where nobody else is on the way");
        break;
    case ADDRESS_GOOD:
        break;
    }
    check_place(load, where);
}
