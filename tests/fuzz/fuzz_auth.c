/* fuzz_auth.c -- any bytes as an Authorization header, and any bytes as the signed payload of a
 * token: whoever gets in has a valid tenant and a time in the future. */
#include <openssl/hmac.h>
#include <stdlib.h>

#include "api/auth/auth.h"
#include "core/name.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define NOW_MS INT64_C(1700000000000)
#define PAYLOAD_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct auth *auth;
static struct auth_cache *cache;

static void start(void)
{
    struct config config;
    struct config_report report;
    const char *sets[] = {"auth.jwtSecret=" SECRET, "auth.audience=tally"};
    struct config_source source = {.sets = sets, .sets_count = 2};
    char error[256];
    config_report_init(&report);
    must(config_load(&config, &source, &report) == ERR_OK);
    must(auth_new(&auth, &config, error, sizeof error) == ERR_OK);
    cache = auth_cache_new();
    config_report_release(&report);
    config_release(&config);
}

static size_t base64url(const unsigned char *in, size_t size, char *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t count = 0;
    for (size_t bit = 0; bit < size * 8; bit += 6) {
        unsigned pair = (unsigned)in[bit / 8] << 8 | (bit / 8 + 1 < size ? in[bit / 8 + 1] : 0u);
        out[count++] = letters[pair >> (10 - bit % 8) & 63];
    }
    return count;
}

/* "Bearer " and a token that carries `payload` under a good signature. */
static size_t sign(const uint8_t *payload, size_t size, char *out)
{
    static const char head[] = "Bearer eyJhbGciOiJIUzI1NiJ9."; /* {"alg":"HS256"} */
    memcpy(out, head, sizeof head - 1);
    size_t end = sizeof head - 1 + base64url(payload, size, out + sizeof head - 1);
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_size;
    HMAC(EVP_sha256(), SECRET, 32, (unsigned char *)out + 7, end - 7, mac, &mac_size);
    out[end++] = '.';
    return end + base64url(mac, mac_size, out + end);
}

static void judge(struct bytes header)
{
    struct identity identity;
    enum bearer_flaw flaw = auth_check(auth, cache, header, NOW_MS, &identity);
    must(bearer_flaw_text(flaw) != NULL);
    if (flaw) return;
    must(name_valid(identity_tenant(&identity)));
    must(identity.expires_ms > NOW_MS);
    must(identity.scopes < 2 * SCOPE_REPLICA);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char header[2 * PAYLOAD_MAX];
    if (!auth) start();
    if (!data) return 0;
    judge(bytes_of(data, size));
    if (size <= PAYLOAD_MAX) judge(bytes_of(header, sign(data, size, header)));
    return 0;
}
