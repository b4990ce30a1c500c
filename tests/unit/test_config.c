/* test_config.c -- what the config file, the environment and the command line come to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/scope.h"
#include "config/settings.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define ROOMY "journal: { segmentBytes: 512MiB }\n" /* also in the small world */
#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "0123456789abcdefABCDEF9876543210000000000000000000000000000000b0"

static struct config config;
static struct config_report report;

static enum err load(const struct config_source *source)
{
    config_release(&config);
    config_report_release(&report);
    config_report_init(&report);
    return config_load(&config, source, &report);
}

static enum err load_text(const char *text)
{
    return load(&(struct config_source){.file = "x.yaml", .text = bytes_str(text)});
}

static enum err load_set(const char *set)
{
    return load(&(struct config_source){.sets = &set, .sets_count = 1});
}

static void loads(const char *text)
{
    if (load_text(text) != ERR_OK) fail_msg("refused:\n%s\n%s", text, report.text.data);
    assert_string_equal(report.text.data, "");
}

/* The report is exactly `expected`. */
static void refuses(const char *text, const char *expected)
{
    if (load_text(text) == ERR_OK) fail_msg("took:\n%s", text);
    assert_string_equal(report.text.data, expected);
}

static int teardown(void **state)
{
    (void)state;
    config_release(&config);
    config_report_release(&report);
    return 0;
}

static void without_a_file_there_are_defaults(void **state)
{
    (void)state;
    assert_int_equal(load(&(struct config_source){0}), ERR_OK);
    assert_string_equal(config.listen, "127.0.0.1:8787");
    assert_string_equal(config.data, "./data");
    assert_string_equal(config.ops_dir, "./ops");
    assert_true(config.threads >= 1);
    assert_int_equal(config.log_level, LOG_INFO);
    assert_true(config.metrics_public);
    assert_int_equal(config.store_kind, CONFIG_STORE_EMBEDDED);
    assert_int_equal(config.timeouts_idle, 75000);
    assert_int_equal(config.idempotency_keep, INT64_C(30) * 86400 * 1000);
    assert_int_equal(config.limits_body_bytes, 16 << 20);
    assert_int_equal(config.limits_tenant_cells, 10000000);
    assert_false(config.auth_jwt_admin);
    assert_false(config_has_auth(&config));
#ifdef TALLY_SMALL_WORLD
    assert_int_equal(config.limits_queue_ops, 8);
    assert_int_equal(config.limits_tenant_queue_ops, 6);
    assert_int_equal(config.limits_batch_ops, 3);
    assert_int_equal(config.limits_atomic_ops, 3);
    assert_int_equal(config.journal_segment_bytes, 64 << 10);
#else
    assert_int_equal(config.limits_queue_ops, 500000);
    assert_int_equal(config.limits_tenant_queue_ops, 400000);
    assert_int_equal(config.limits_batch_ops, 5000);
    assert_int_equal(config.limits_atomic_ops, 5000);
    assert_int_equal(config.limits_request_ops, 100000);
    assert_int_equal(config.limits_tenant_connections, 16000);
    assert_int_equal(config.journal_segment_bytes, 256 << 20);
    assert_int_equal(config.journal_keep, 3600000);
    assert_int_equal(config.expiry_sweep_every, 60000);
    assert_int_equal(config.store_cache_bytes, 512 << 20);
#endif
}

static struct buf read_whole(const char *name)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;)
        buf_add_char(&text, (char)c);
    fclose(file);
    return text;
}

static void etc_tally_yaml_is_the_manual_and_loads_as_the_defaults(void **state)
{
    (void)state;
    struct buf manual, file = read_whole("etc/tally.yaml");
    buf_init(&manual, 1u << 20);
    config_write_manual(&manual);
    assert_true(bytes_equal(buf_bytes(&file), buf_bytes(&manual)));
    buf_release(&file);
    buf_release(&manual);

    if (load(&(struct config_source){.file = "etc/tally.yaml"}) != ERR_OK)
        fail_msg("%s", report.text.data);
    struct config defaults = {0};
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        char error[SETTING_ERROR_SIZE];
        if (setting_is_list(&settings[i])) continue;
        assert_true(setting_set(&settings[i], &defaults, bytes_str(settings[i].standard), error));
    }
    defaults.rules = rules_hold(config.rules);
    defaults.threads = config.threads; /* 0 in the file: these are worked out */
    defaults.store_lanes = 1;
    defaults.limits_tenant_queue_ops = 400000;
    defaults.limits_tenant_connections = 16000;
    struct buf a, b;
    buf_init(&a, 1u << 20);
    buf_init(&b, 1u << 20);
    config_write(&config, &a);
    config_write(&defaults, &b);
    assert_true(a.size > 500 && bytes_equal(buf_bytes(&a), buf_bytes(&b)));
    buf_release(&a);
    buf_release(&b);
    config_release(&defaults);
}

static void the_demo_config_loads_with_the_documented_limits(void **state)
{
    (void)state;
    if (load(&(struct config_source){.file = "etc/demo.yaml"}) != ERR_OK)
        fail_msg("%s", report.text.data);
#ifndef TALLY_SMALL_WORLD
    assert_int_equal(config.limits_batch_ops, 5000);
    assert_int_equal(config.limits_atomic_ops, 5000);
#endif
}

static void an_empty_file_is_a_good_one(void **state)
{
    (void)state;
    static const char *const empty[] = {
        "",
        "\n",
        "# only a comment\n",
        "---\n",
        "---\n...\n",
        "~",
        "null\n",
        "{}",
        "limits:\n",
        "limits: {}\n",
        "limits: ~\nauth:\n",
        "listen:\n",
        "auth: { keys: ~ }\n",
        "\xef\xbb\xbf# BOM\n",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(empty); i++) {
        loads(empty[i]);
        assert_string_equal(config.listen, "127.0.0.1:8787");
    }
}

static void values_are_read_as_their_kind(void **state)
{
    (void)state;
    loads("listen: '[::1]:0'\n"
          "data: /var/lib/tally\n"
          "threads: 3\n"
          "log: { level: debug }\n"
          "metrics: { public: false }\n"
          "store: { kind: memory, cacheBytes: 1GiB }\n"
          "journal: { keep: 0, keepBytes: 5MB }\n"
          "timeouts:\n"
          "  idle: 1500ms\n"
          "  request: \"2m\"\n"
          "auth:\n"
          "  jwtSecret: \"" SECRET " with: # any text\"\n"
          "  issuer: https://issuer.example/\n"
          "  jwtAdmin: true\n");
    assert_string_equal(config.listen, "[::1]:0");
    assert_string_equal(config.data, "/var/lib/tally");
    assert_int_equal(config.threads, 3);
    assert_int_equal(config.log_level, LOG_DEBUG);
    assert_false(config.metrics_public);
    assert_int_equal(config.store_kind, CONFIG_STORE_MEMORY);
    assert_int_equal(config.store_cache_bytes, 1 << 30);
    assert_int_equal(config.journal_keep, 0);
    assert_int_equal(config.journal_keep_bytes, 5000000);
    assert_int_equal(config.timeouts_idle, 1500);
    assert_int_equal(config.timeouts_request, 120000);
    assert_string_equal(config.auth_jwt_secret, SECRET " with: # any text");
    assert_string_equal(config.auth_issuer, "https://issuer.example/");
    assert_true(config.auth_jwt_admin);
    assert_true(config_has_auth(&config));
}

static void errors_name_file_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        {"limits:\n  queueOpss: 5\n",
         "x.yaml:2:3: unknown setting limits.queueOpss; did you mean limits.queueOps?\n"},
        {"limits:\n  queueops: 5\n",
         "x.yaml:2:3: unknown setting limits.queueops; did you mean limits.queueOps?\n"},
        {"limitz:\n  queueOps: 5\n", "x.yaml:1:1: unknown setting limitz; did you mean limits?\n"},
        {"counter: []\n", "x.yaml:1:1: unknown setting counter; did you mean counters?\n"},
        {"a: 1\n", "x.yaml:1:1: unknown setting a\n"},
        {"threads: x\n", "x.yaml:1:10: threads must be a whole number, not \"x\"\n"},
        {"threads: -1\n", "x.yaml:1:10: threads must be a whole number, not \"-1\"\n"},
        {"threads: 257\n", "x.yaml:1:10: threads must be from 0 to 256\n"},
        {"threads: 1e3\n", "x.yaml:1:10: threads must be a whole number, not \"1e3\"\n"},
        {"threads: 99999999999999999999\n",
         "x.yaml:1:10: threads must be a whole number, not \"99999999999999999999\"\n"},
        {"threads: [1]\n", "x.yaml:1:10: threads must be a single value, not a list\n"},
        {"threads: {a: 1}\n", "x.yaml:1:10: threads must be a single value, not a mapping\n"},
        {"limits: 5\n", "x.yaml:1:9: limits must be a mapping, not a single value\n"},
        {"limits: []\n", "x.yaml:1:9: limits must be a mapping, not a list\n"},
        {"timeouts:\n  idle: 75\n", "x.yaml:2:9: timeouts.idle must be a duration such as 500ms, "
                                    "30s, 5m, 1h or 30d, not \"75\"\n"},
        {"timeouts:\n  idle: 0\n", "x.yaml:2:9: timeouts.idle must be from 100ms to 1d\n"},
        {"store: { cacheBytes: 12 Mb }\n", "x.yaml:1:22: store.cacheBytes must be a size such as "
                                           "4096, 64KiB or 16MiB, not \"12 Mb\"\n"},
        {"store: { cacheBytes: 1 }\n", "x.yaml:1:22: store.cacheBytes must be from 1MiB to 1TiB\n"},
        {"store: { kind: disk }\n",
         "x.yaml:1:16: store.kind must be one of embedded, memory, postgres\n"},
        {"store: { lanes: 4 }\nevents: { idScope: installation }\n",
         "x.yaml:2:20: events.idScope installation needs store.lanes 1, not 4\n"},
        {"log: { level: loud }\n",
         "x.yaml:1:15: log.level must be one of debug, info, warn, error\n"},
        {"metrics: { public: yes }\n", "x.yaml:1:20: metrics.public must be true or false\n"},
        {"listen: example.com:80\n", "x.yaml:1:9: listen must be a numeric address and a port, "
                                     "such as 127.0.0.1:8787 or [::1]:8787\n"},
        {"data: ''\n", "x.yaml:1:7: data must not be empty\n"},
        {"data: \"a\\0b\"\n",
         "x.yaml:1:7: data must not contain line breaks or other control characters\n"},
        {"data: |\n  a\n",
         "x.yaml:1:7: data must not contain line breaks or other control characters\n"},
        {"threads: 1\ndata: a\nthreads: 2\n",
         "x.yaml:3:1: threads is given twice; the first is in line 1\n"},
        {"limits:\n  queueOps: 9\nlimits:\n  batchOps: 1\n",
         "x.yaml:3:1: limits is given twice; the first is in line 1\n"},
        {"log.level: info\n", "x.yaml:1:1: write log.level as nested keys, not with a dot\n"},
        {"? [a]\n: b\n", "x.yaml:1:3: a setting's name must be a single value, not a list\n"},
        {"- a\n", "x.yaml:1:1: the file must be a mapping of settings, not a list\n"},
        {"hello\n", "x.yaml:1:1: the file must be a mapping of settings, not a single value\n"},
        {"threads: 1\n---\nthreads: 2\n", "x.yaml:2:1: a second YAML document; a config is one\n"},
        {"a: [\n", "x.yaml:2:1: did not find expected node content, while parsing a flow node\n"},
        {"a: *b\n", "x.yaml:1:4: found undefined alias\n"},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++)
        refuses(cases[i].text, cases[i].expected);
}

static void several_errors_are_listed_up_to_a_bound(void **state)
{
    (void)state;
    refuses("threads: x\nlimits:\n  batchOps: y\nfoo: 1\n",
            "x.yaml:1:10: threads must be a whole number, not \"x\"\n"
            "x.yaml:3:13: limits.batchOps must be a whole number, not \"y\"\n"
            "x.yaml:4:1: unknown setting foo\n");
    char many[4096];
    size_t size = 0;
    for (unsigned i = 0; i < 50; i++)
        size += (size_t)snprintf(many + size, sizeof many - size, "unknown%u: 1\n", i);
    assert_int_equal(load_text(many), ERR_INVALID);
    assert_int_equal(report.count, CONFIG_ERRORS_MAX);
    assert_non_null(strstr(report.text.data, "x.yaml:20:1:"));
    assert_null(strstr(report.text.data, "x.yaml:21:1:"));
}

static void an_alias_of_itself_leads_nowhere(void **state)
{
    (void)state;
    assert_int_equal(load_text("limits: &x\n  limits: *x\n"), ERR_INVALID);
    assert_int_equal(load_text("auth: { keys: &k [*k, {tenant: *k}] }\n"), ERR_INVALID);
    loads("limits: &x { queueOps: 90000 }\n");
}

static void files_that_cannot_be_read_are_named(void **state)
{
    (void)state;
    assert_int_equal(load(&(struct config_source){.file = "/nonexistent.yaml"}), ERR_INVALID);
    assert_string_equal(report.text.data, "/nonexistent.yaml: No such file or directory\n");
    assert_int_equal(load(&(struct config_source){.file = "/"}), ERR_INVALID);
    assert_string_equal(report.text.data, "/: Is a directory\n");
    assert_int_equal(load(&(struct config_source){.file = "/dev/zero"}), ERR_INVALID);
    assert_string_equal(report.text.data, "/dev/zero: larger than 1 MiB, which no config is\n");
}

static void later_sources_win(void **state)
{
    (void)state;
    static const char *const environment[] = {
        "TALLY_THREADS=2",
        "TALLY_DATA=from-environment",
        "TALLY_LISTEN=127.0.0.2:2",
        "TALLY_TIMEOUTS_IDLE=2s",
        "PATH=/bin",
        "TALLY_TOKEN=a.b.c",
        "TALLY_PORT=tcp://1.2.3.4:5",
        "TALLY_AUTH_JWTSECRET=" SECRET,
        "TALLY_LIMITS_QUEUEOPS=70000",
        NULL,
    };
    static const char *const sets[] = {"threads=7", "data=from-set", "threads=8"};
    struct config_source source = {
        .file = "x.yaml",
        .text =
            BYTES("threads: 1\ndata: from-file\nlisten: '127.0.0.1:1'\nops: {dir: from-file}\n"),
    };
    assert_int_equal(load(&source), ERR_OK);
    assert_int_equal(config.threads, 1);
    source.environment = environment;
    assert_int_equal(load(&source), ERR_OK);
    assert_int_equal(config.threads, 2);
    assert_string_equal(config.data, "from-environment");
    source.sets = sets;
    source.sets_count = ARRAY_COUNT(sets);
    assert_int_equal(load(&source), ERR_OK);
    assert_int_equal(config.threads, 8);
    assert_string_equal(config.data, "from-set");
    source.data = "from-flag";
    source.listen = "127.0.0.3:3";
    assert_int_equal(load(&source), ERR_OK);
    assert_string_equal(config.data, "from-flag");
    assert_string_equal(config.listen, "127.0.0.3:3");
    assert_string_equal(config.ops_dir, "from-file");
    assert_int_equal(config.timeouts_idle, 2000);
    assert_int_equal(config.limits_queue_ops, 70000);
    assert_string_equal(config.auth_jwt_secret, SECRET);
}

static void every_setting_has_its_own_name_in_the_environment(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        char variable[160];
        int size = snprintf(variable, sizeof variable, "TALLY_%s=\t", settings[i].path);
        for (int j = 0; j < size; j++)
            variable[j] = (char)(variable[j] == '.' ? '_' : toupper((unsigned char)variable[j]));
        const char *const environment[] = {variable, NULL};
        /* A tab is wrong for every kind, so the complaint shows who took it. */
        assert_int_equal(load(&(struct config_source){.environment = environment}), ERR_INVALID);
        assert_int_equal(report.count, 1);
        assert_non_null(strstr(report.text.data, "TALLY_"));
        if (!setting_is_list(&settings[i]))
            assert_non_null(strstr(report.text.data, settings[i].path));
    }
}

static void overrides_are_checked_like_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        const char *expected;
    } cases[] = {
        {"threads=x", "--set: threads must be a whole number, not \"x\"\n"},
        {"thread=1", "--set: unknown setting thread; did you mean threads?\n"},
        {"limits=1", "--set: unknown setting limits; did you mean limits?\n"},
        {"threads", "--set: \"threads\" must have the form key=value\n"},
        {"", "--set: \"\" must have the form key=value\n"},
        {"=", "--set: unknown setting \n"},
        {"auth.keys=5", "--set: auth.keys must be a list, not a single value\n"},
        {"auth.keys=[", "--set: did not find expected node content, while parsing a flow node\n"},
        {"auth.keys=[{tenant: a}]", "--set: auth.keys: an entry needs sha256 and tenant\n"},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(load_set(cases[i].set), ERR_INVALID);
        if (strcmp(cases[i].set, "limits=1") == 0) continue;
        assert_string_equal(report.text.data, cases[i].expected);
    }
    assert_int_equal(load_set("auth.issuer=a=b"), ERR_OK);
    assert_string_equal(config.auth_issuer, "a=b");
    assert_int_equal(load_set("auth.issuer="), ERR_OK);
    assert_string_equal(config.auth_issuer, "");
    assert_int_equal(load(&(struct config_source){.listen = "nowhere"}), ERR_INVALID);
    assert_non_null(strstr(report.text.data, "--listen: listen must be"));
}

static void assert_origins(unsigned count, bool any, const char *shown)
{
    struct buf buf;
    buf_init(&buf, 4096);
    assert_int_equal(config.cors_origins.count, count);
    assert_int_equal(config.cors_origins.any, any);
    setting_show(setting_find(BYTES("cors.origins")), &config, &buf);
    buf_add_char(&buf, 0);
    assert_string_equal(buf.data, shown);
    buf_release(&buf);
}

static void origins_are_a_list_or_any(void **state)
{
    (void)state;
    loads("cors:\n  origins: [https://app.example, \"http://[::1]:3000\"]\n");
    assert_origins(2, false, "[\"https://app.example\", \"http://[::1]:3000\"]");
    loads("cors:\n  origins: https://app.example\n");
    assert_origins(1, false, "[\"https://app.example\"]");
    loads("cors:\n  origins: \"*\"\n");
    assert_origins(0, true, "\"*\"");
    loads("cors:\n  origins: []\n");
    assert_origins(0, false, "[]");
    assert_int_equal(load_set("cors.origins=*"), ERR_OK);
    assert_origins(0, true, "\"*\"");
    assert_int_equal(load_set("cors.origins=[http://a:1, http://b]"), ERR_OK);
    assert_origins(2, false, "[\"http://a:1\", \"http://b\"]");
}

static void an_origin_is_written_as_browsers_send_it(void **state)
{
    (void)state;
    static const char *const bad[] = {"app.example",
                                      "https://app.example/",
                                      "https://App.example",
                                      "https://app.example/page",
                                      "https://",
                                      "://a",
                                      "null",
                                      "https://a b",
                                      "https://*.example",
                                      "https://a,https://b"};
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        char set[128];
        snprintf(set, sizeof set, "cors.origins=[\"%s\"]", bad[i]);
        if (load_set(set) != ERR_INVALID) fail_msg("took %s", bad[i]);
        assert_non_null(strstr(report.text.data, "is not an origin as browsers send it"));
    }
    assert_int_equal(load_set("cors.origins={a: b}"), ERR_INVALID);
    assert_int_equal(load_set("cors.origins=[[a]]"), ERR_INVALID);
}

static void keys_are_a_list_with_tenant_and_scope(void **state)
{
    (void)state;
    loads("auth:\n"
          "  keys:\n"
          "    - { sha256: " SHA_A ", tenant: t1 }\n"
          "    - sha256: " SHA_B "\n"
          "      tenant: other.Tenant~2\n"
          "      scope: read\n");
    assert_int_equal(config.auth_keys.count, 2);
    assert_string_equal(config.auth_keys.items[0].tenant, "t1");
    assert_int_equal(config.auth_keys.items[0].sha256[31], 0xaa);
    assert_int_equal(config.auth_keys.items[0].scopes, SCOPE_READ | SCOPE_WRITE);
    assert_string_equal(config.auth_keys.items[1].tenant, "other.Tenant~2");
    assert_int_equal(config.auth_keys.items[1].sha256[31], 0xb0);
    assert_memory_equal(config.auth_keys.items[1].sha256, "\x01\x23\x45\x67\x89\xab\xcd\xef\xab",
                        9);
    assert_int_equal(config.auth_keys.items[1].scopes, SCOPE_READ);
    assert_true(config_has_auth(&config));

    assert_int_equal(load_set("auth.keys=[{sha256: " SHA_A ", tenant: t3, scope: ''}]"), ERR_OK);
    assert_int_equal(config.auth_keys.count, 1);
    assert_int_equal(config.auth_keys.items[0].scopes, 0);
}

static void keys_that_are_wrong_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        const char *expected;
    } cases[] = {
        {"{}", "x.yaml:1:15: auth.keys must be a list, not a mapping\n"},
        {"[a]", "x.yaml:1:16: auth.keys: an entry must be a mapping, not a single value\n"},
        {"[{}]", "x.yaml:1:16: auth.keys: an entry needs sha256 and tenant\n"},
        {"[{sha256: " SHA_A "}]", "x.yaml:1:16: auth.keys: an entry needs sha256 and tenant\n"},
        {"[{sha256: abc, tenant: a}]",
         "x.yaml:1:25: auth.keys: sha256 must be 64 hex digits, the key's SHA-256\n"},
        {"[{tenant: a/b}]",
         "x.yaml:1:25: auth.keys: tenant must be 1 to 255 of A-Z a-z 0-9 _ . ~ -\n"},
        {"[{tenant: ''}]",
         "x.yaml:1:25: auth.keys: tenant must be 1 to 255 of A-Z a-z 0-9 _ . ~ -\n"},
        {"[{scope: read wriet}]", "x.yaml:1:24: auth.keys: scope may hold read, write and admin\n"},
        {"[{scopes: read}]",
         "x.yaml:1:25: auth.keys: an entry may hold sha256, tenant and scope\n"},
        {"[{tenant: [a]}]",
         "x.yaml:1:25: auth.keys: names and values of an entry must be single values\n"},
        {"[{tenant: a, tenant: b}]",
         "x.yaml:1:28: auth.keys: a field is given twice; the first is in line 1\n"},
        {"[{sha256: " SHA_A ", tenant: a}, {sha256: " SHA_A ", tenant: b}]",
         "x.yaml:1:103: auth.keys: this sha256 is listed twice\n"},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[512];
        snprintf(text, sizeof text, "auth: { keys: %s }\n", cases[i].keys);
        refuses(text, cases[i].expected);
    }
}

static void settings_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        {ROOMY "limits: { queueOps: 100, batchOps: 101 }",
         "x.yaml:2:36: limits.batchOps (101) must not be more than limits.queueOps (100)\n"
         "x.yaml:2:36: limits.batchOps (101) must not be more than limits.tenantQueueOps (80)\n"},
        {ROOMY "limits: { queueOps: 100, tenantQueueOps: 40, batchOps: 50 }",
         "x.yaml:2:56: limits.batchOps (50) must not be more than limits.tenantQueueOps (40)\n"},
        {ROOMY "limits: { queueOps: 100, tenantQueueOps: 101 }",
         "x.yaml:2:42: limits.tenantQueueOps (101) must not be more than limits.queueOps (100)\n"},
        {ROOMY "limits: { queueOps: 100, batchOps: 50, atomicOps: 51 }",
         "x.yaml:2:51: limits.atomicOps (51) must not be more than limits.batchOps (50)\n"},
        {"limits: { connections: 10, tenantConnections: 11 }",
         "x.yaml:1:47: limits.tenantConnections (11) must not be more than limits.connections (10)\n"},
        {"journal: { segmentBytes: 1000000 }",
         "x.yaml:1:26: journal.segmentBytes (1000000) must be a multiple of 4096\n"},
        {"journal: { segmentBytes: 1MiB }\nlimits: { queueOps: 9000, batchOps: 200 }",
         "x.yaml:2:37: limits.batchOps (200) is too many for one journal segment of 1MiB with "
         "limits.counterGranularities (256): at most 63, or raise journal.segmentBytes\n"},
        {"auth: { jwtSecret: 0123456789abcdef0123456789abcde }",
         "x.yaml:1:20: auth.jwtSecret must have 32 bytes or more, not 31\n"},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++)
        refuses(cases[i].text, cases[i].expected);
}

static void defaults_give_way_to_what_was_set(void **state)
{
    (void)state;
    loads("limits: { queueOps: 2 }");
    assert_int_equal(config.limits_tenant_queue_ops, 1);
    assert_int_equal(config.limits_batch_ops, 1);
    assert_int_equal(config.limits_atomic_ops, 1);
    loads("limits: { queueOps: 1 }");
    assert_int_equal(config.limits_tenant_queue_ops, 1);
    loads("limits: { queueOps: 1000000, batchOps: 2 }");
    assert_int_equal(config.limits_atomic_ops, 2);
    loads(ROOMY
          "limits: { queueOps: 100, batchOps: 5000 }"); /* the documented default, spelled out */
    assert_int_equal(config.limits_batch_ops, 80);
    loads("journal: { segmentBytes: 64KiB }");
    assert_true(config.limits_batch_ops <= 7);
}

static void the_fallback_secret_is_only_that(void **state)
{
    (void)state;
    struct config_source source = {.fallback_secret = SECRET};
    assert_int_equal(load(&source), ERR_OK);
    assert_string_equal(config.auth_jwt_secret, SECRET);
    source.text = BYTES("auth: { jwtSecret: " SECRET "x }");
    assert_int_equal(load(&source), ERR_OK);
    assert_string_equal(config.auth_jwt_secret, SECRET "x");
}

static void what_is_printed_reads_back_and_hides_the_secret(void **state)
{
    (void)state;
    loads("listen: '[::1]:99'\ndata: \"a \\\" # b\"\nthreads: 5\n"
          "journal: { keep: 90m, segmentBytes: 128KiB }\nlimits: { queueOps: 77, batchOps: 5 }\n"
          "auth: { jwtSecret: " SECRET ", keys: [{sha256: " SHA_A
          ", tenant: t, scope: admin}] }\n");
    struct buf first, second;
    buf_init(&first, 1u << 20);
    buf_init(&second, 1u << 20);
    config_write(&config, &first);
    buf_add_char(&first, 0);
    assert_null(strstr(first.data, SECRET));
    char *hidden = strstr(first.data, "\"(set)\"");
    assert_non_null(hidden);
    memcpy(hidden, "\"\"     ", 7);
    loads(first.data);
    config_write(&config, &second);
    buf_add_char(&second, 0);
    memcpy(strstr(first.data, "\"\"     "), "\"\"\n", 3);
    assert_string_equal(config.data, "a \" # b");
    assert_int_equal(config.auth_keys.items[0].scopes, SCOPE_ADMIN | SCOPE_READ | SCOPE_WRITE);
    assert_int_equal(config.journal_keep, 90 * 60000);
    assert_int_equal(second.size, first.size - 5);
    buf_release(&first);
    buf_release(&second);
}

static void a_store_in_postgres_has_a_section_of_its_own(void **state)
{
    (void)state;
    const char *const environment[] = {"COUNTS_DSN=host=db user=tally", NULL};
    const char *text = "store:\n"
                       "  kind: postgres\n"
                       "  postgres:\n"
                       "    dsn: \"env:COUNTS_DSN\"\n"
                       "    schema: counts\n"
                       "    pooler: transaction\n";
    assert_int_equal(load(&(struct config_source){
                         .file = "x.yaml", .text = bytes_str(text), .environment = environment}),
                     ERR_OK);
    assert_string_equal(config.store_postgres_dsn.items[0], "host=db user=tally");
    assert_string_equal(config.store_postgres_schema, "counts");
    assert_int_equal(config.store_postgres_pooler, CONFIG_POOLER_TRANSACTION);
    assert_int_equal(config.store_lanes, 16);
    struct buf printed;
    buf_init(&printed, 1u << 20);
    config_write(&config, &printed);
    buf_add_char(&printed, '\0');
    assert_non_null(
        strstr(printed.data, "  postgres:\n    dsn: \"(set)\"\n    readDsn: \"\"\n    schema: "));
    buf_release(&printed);
    loads("store: { kind: postgres, lanes: 2, postgres: { dsn: host=db } }\n");
    assert_int_equal(config.store_lanes, 2);
}

static void a_store_in_postgres_may_be_several_databases_each_with_a_standby(void **state)
{
    (void)state;
    loads("store: { kind: postgres, lanes: 4, postgres: { dsn: [host=a, host=b],"
          " readDsn: [host=c, host=d] } }\n");
    assert_int_equal(config.store_postgres_dsn.count, 2);
    assert_string_equal(config.store_postgres_dsn.items[1], "host=b");
    assert_string_equal(config.store_postgres_read_dsn.items[0], "host=c");
    const char *const sets[] = {"store.kind=postgres",
                                "store.postgres.dsn=[\"host=a\", \"host=b\"]",
                                "store.postgres.dsn=host=x dbname=y"};
    assert_int_equal(load(&(struct config_source){.sets = sets, .sets_count = 2}), ERR_OK);
    assert_int_equal(config.store_postgres_dsn.count, 2);
    assert_int_equal(load(&(struct config_source){.sets = sets, .sets_count = 3}), ERR_OK);
    assert_int_equal(config.store_postgres_dsn.count, 1);
    assert_string_equal(config.store_postgres_dsn.items[0], "host=x dbname=y");
    refuses("store: { kind: postgres, postgres: { dsn: [host=a, b] } }\n",
            "x.yaml:1:43: store.postgres.dsn, entry 2 is not a connection string: "
            "postgresql://user@host/database, or host=... dbname=...\n");
    refuses("store: { kind: postgres, postgres: { dsn: [host=a, host=b], readDsn: host=c } }\n",
            "x.yaml:1:70: store.postgres.readDsn has 1 entries and store.postgres.dsn has 2: each "
            "database has a standby, or none has\n");
    refuses("store: { kind: postgres, lanes: 1, postgres: { dsn: [host=a, host=b] } }\n",
            "x.yaml:1:53: store.postgres.dsn names 2 databases for 1 lanes (store.lanes): each "
            "needs one at least\n");
}

static void what_has_no_meaning_in_postgres_is_named_and_changes_nothing(void **state)
{
    (void)state;
    loads("journal: { keep: 2h, segmentBytes: 65537, keepBytes: 1GiB }\n"
          "checkpoint: { every: 1s }\n"
          "store: { kind: postgres, postgres: { dsn: host=db } }\n");
    assert_string_equal(config.ignored, "journal.segmentBytes, journal.keep, checkpoint.every");
    loads("journal: { keep: 2h }\n");
    assert_string_equal(config.ignored, "");
}

static void a_store_in_postgres_says_what_it_lacks(void **state)
{
    (void)state;
    refuses("store: { kind: postgres }\n",
            "x.yaml:1:16: store.kind postgres needs store.postgres.dsn, such as env:TALLY_DSN\n");
    refuses("store: { kind: postgres, postgres: { dsn: env:NOWHERE } }\n",
            "x.yaml:1:43: store.postgres.dsn: the environment variable NOWHERE is not set\n");
    refuses("store: { kind: postgres, postgres: { dsn: somewhere } }\n",
            "x.yaml:1:43: store.postgres.dsn is not a connection string: "
            "postgresql://user@host/database, or host=... dbname=...\n");
    refuses("store: { kind: postgres, postgres: { dsn: host=db, schema: Tally } }\n",
            "x.yaml:1:60: store.postgres.schema must be of a-z, 0-9 and _, and begin with a "
            "letter\n");
    refuses("store: { postgres: { host: db } }\n",
            "x.yaml:1:22: unknown setting store.postgres.host; did you mean "
            "store.postgres.dsn?\n");
    refuses("store: { postgres: db }\n",
            "x.yaml:1:20: store.postgres must be a mapping, not a single value\n");
}

static void the_table_is_consistent(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        assert_true(strlen(settings[i].path) < SETTING_PATH_SIZE);
        assert_ptr_equal(setting_find(bytes_str(settings[i].path)), &settings[i]);
        assert_false(setting_is_section(bytes_str(settings[i].path)));
        assert_true(settings[i].least <= settings[i].most);
        assert_int_equal(settings[i].sentence[strlen(settings[i].sentence) - 1], '.');
    }
    char suggestion[SETTING_PATH_SIZE];
    assert_string_equal(setting_suggest(BYTES("auth.jwtsecret"), suggestion), "auth.jwtSecret");
    assert_string_equal(setting_suggest(BYTES("limit"), suggestion), "limits");
    assert_null(setting_suggest(BYTES("something.else.entirely"), suggestion));
    assert_null(setting_suggest(BYTES(""), suggestion));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_there_are_defaults),
        cmocka_unit_test(etc_tally_yaml_is_the_manual_and_loads_as_the_defaults),
        cmocka_unit_test(the_demo_config_loads_with_the_documented_limits),
        cmocka_unit_test(an_empty_file_is_a_good_one),
        cmocka_unit_test(values_are_read_as_their_kind),
        cmocka_unit_test(errors_name_file_line_and_column),
        cmocka_unit_test(several_errors_are_listed_up_to_a_bound),
        cmocka_unit_test(an_alias_of_itself_leads_nowhere),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(every_setting_has_its_own_name_in_the_environment),
        cmocka_unit_test(overrides_are_checked_like_the_file),
        cmocka_unit_test(keys_are_a_list_with_tenant_and_scope),
        cmocka_unit_test(origins_are_a_list_or_any),
        cmocka_unit_test(an_origin_is_written_as_browsers_send_it),
        cmocka_unit_test(keys_that_are_wrong_are_refused),
        cmocka_unit_test(settings_that_contradict_each_other_are_refused),
        cmocka_unit_test(defaults_give_way_to_what_was_set),
        cmocka_unit_test(the_fallback_secret_is_only_that),
        cmocka_unit_test(what_is_printed_reads_back_and_hides_the_secret),
        cmocka_unit_test(a_store_in_postgres_has_a_section_of_its_own),
        cmocka_unit_test(a_store_in_postgres_may_be_several_databases_each_with_a_standby),
        cmocka_unit_test(what_has_no_meaning_in_postgres_is_named_and_changes_nothing),
        cmocka_unit_test(a_store_in_postgres_says_what_it_lacks),
        cmocka_unit_test(the_table_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
