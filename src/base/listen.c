/* listen.c -- splitting and judging addresses. */
#include "base/listen.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/quantity.h"

static bool parse_port(struct bytes text, unsigned *port_out)
{
    int64_t port;
    if (text.size > 5 || !quantity_digits(text, &port) || port > 65535) return false;
    *port_out = (unsigned)port;
    return true;
}

static bool address_set(struct listen *listen, struct bytes address)
{
    if (address.size == 0 || address.size >= sizeof listen->address) return false;
    memcpy(listen->address, address.data, address.size);
    listen->address[address.size] = 0;
    return true;
}

static bool judge_v4(struct listen *listen)
{
    struct in_addr address;
    if (inet_pton(AF_INET, listen->address, &address) != 1) return false;
    listen->loopback = ntohl(address.s_addr) >> 24 == 127;
    return true;
}

static bool judge_v6(struct listen *listen)
{
    struct in6_addr address;
    if (inet_pton(AF_INET6, listen->address, &address) != 1) return false;
    listen->loopback = IN6_IS_ADDR_LOOPBACK(&address);
    return true;
}

bool listen_parse(struct bytes text, struct listen *listen_out)
{
    const char *colon = text.size ? memrchr(text.data, ':', text.size) : NULL;
    if (!colon) return false;
    struct bytes host = bytes_of(text.data, (size_t)(colon - text.data));
    struct bytes port = bytes_of(colon + 1, text.size - host.size - 1);
    *listen_out = (struct listen){0};
    if (!parse_port(port, &listen_out->port)) return false;
    if (bytes_equal_nocase(host, BYTES("localhost"))) host = BYTES("127.0.0.1");
    bool bracketed = host.size > 2 && host.data[0] == '[' && host.data[host.size - 1] == ']';
    if (bracketed) host = bytes_of(host.data + 1, host.size - 2);
    if (!address_set(listen_out, host)) return false;
    return bracketed ? judge_v6(listen_out) : judge_v4(listen_out);
}

void listen_url(const struct listen *listen, unsigned port, char url_out[LISTEN_URL_SIZE])
{
    bool v6 = strchr(listen->address, ':') != NULL;
    snprintf(url_out, LISTEN_URL_SIZE, v6 ? "http://[%s]:%u" : "http://%s:%u", listen->address,
             port);
}
