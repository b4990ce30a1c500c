/* test_secret.c -- the secret of `serve --dev`, and where `tally token` looks for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/secret.h"
#include "support/scratch_dir.h"

#define IN_FILE "0123456789abcdef0123456789abcdef"
#define IN_ENV "fedcba9876543210fedcba9876543210"

static struct scratch_dir dir;
static char work[4096];

static int set_up(void **state)
{
    (void)state;
    scratch_dir_init(&dir);
    assert_non_null(getcwd(work, sizeof work));
    return chdir(dir.path);
}

static int tear_down(void **state)
{
    (void)state;
    int result = chdir(work);
    scratch_dir_release(&dir);
    return result;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* The secret that is found, and where, from these configs of installed servers. */
static void expect(const struct config_source *given, const char *const *installed,
                   const char *secret, const char *found)
{
    struct config config;
    struct secret_place place;
    assert_int_equal(secret_load_config(given, installed, &config, &place), 0);
    assert_string_equal(config.auth_jwt_secret, secret);
    assert_string_equal(place.found, found);
    config_release(&config);
}

static const char *const installed[] = {"first/tally.yaml", "second.yaml", NULL};

static void it_is_kept_once_for_its_owner_only(void **state)
{
    (void)state;
    char secret[SECRET_SIZE], other[SECRET_SIZE];
    struct stat about;
    secret_random(secret);
    secret_random(other);
    assert_string_not_equal(secret, other);
    assert_int_equal(secret_keep("data", secret), ERR_OK);
    assert_int_equal(secret_keep("data", other), ERR_OK);
    assert_string_equal(other, secret);
    assert_int_equal(stat("data/" SECRET_DEV_FILE, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    put("data/" SECRET_DEV_FILE, "torn");
    secret_random(other);
    assert_int_equal(secret_keep("data", other), ERR_OK);
    assert_string_not_equal(other, secret);
    assert_int_equal(secret_keep("no/such/place", other), ERR_STORAGE);
}

static void a_server_for_trying_comes_before_installed_ones(void **state)
{
    (void)state;
    char secret[SECRET_SIZE];
    put("second.yaml", "auth: { jwtSecret: " IN_FILE " }\n");
    expect(&(struct config_source){0}, installed, IN_FILE, "");
    secret_random(secret);
    assert_int_equal(secret_keep("data", secret), ERR_OK);
    expect(&(struct config_source){0}, installed, secret, "./data/" SECRET_DEV_FILE);
}

static void the_first_installed_config_and_the_file_beside_it_count(void **state)
{
    (void)state;
    put("second.yaml", "auth: { jwtSecret: " IN_FILE " }\n");
    assert_int_equal(mkdir("first", 0700), 0);
    put("first/tally.yaml", "log: { level: info }\n");
    expect(&(struct config_source){0}, installed, "", "");
    put("first/tally.env", "# TALLY_AUTH_JWTSECRET=" IN_FILE "\nnothing\r\n\r\n"
                           "TALLY_AUTH_JWTSECRET=" IN_ENV "\r\n");
    expect(&(struct config_source){0}, installed, IN_ENV, "first/tally.env");
    expect(&(struct config_source){.file = "second.yaml"}, installed, IN_FILE, "");
}

static void as_for_the_server_the_environment_wins_over_the_config(void **state)
{
    (void)state;
    const char *const environment[] = {"TALLY_AUTH_JWTSECRET=" IN_FILE, NULL};
    put("tally.yaml", "auth: { jwtSecret: " IN_FILE " }\n");
    put("tally.env", "TALLY_AUTH_JWTSECRET=" IN_ENV);
    expect(&(struct config_source){.file = "tally.yaml"}, installed, IN_ENV, "");
    expect(&(struct config_source){.file = "tally.yaml", .environment = environment}, installed,
           IN_FILE, "");
}

static void a_config_with_a_mistake_is_refused_and_not_passed_over(void **state)
{
    (void)state;
    struct config config;
    struct secret_place place;
    put("second.yaml", "no.such.setting: 1\n");
    assert_int_equal(secret_load_config(&(struct config_source){0}, installed, &config, &place), 1);
    config_release(&config);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(it_is_kept_once_for_its_owner_only),
        CASE(a_server_for_trying_comes_before_installed_ones),
        CASE(the_first_installed_config_and_the_file_beside_it_count),
        CASE(as_for_the_server_the_environment_wins_over_the_config),
        CASE(a_config_with_a_mistake_is_refused_and_not_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
