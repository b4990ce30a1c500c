/* test_identity.c -- a directory is one store, opened by one process, in a format we know. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "store/embedded/identity.h"
#include "support/scratch_dir.h"

#define FILE_SIZE 224

static const struct identity_wish whole; /* tenants' ids, one lane */
static struct scratch_dir dir;
static struct reason error;

static int setup(void **state)
{
    scratch_dir_init(&dir);
    reason_clear(&error);
    return 0;
}

static int teardown(void **state)
{
    scratch_dir_release(&dir);
    return 0;
}

static struct store_identity open_ok(void)
{
    struct store_identity identity;
    if (identity_open(&identity, dir.path, &whole, &error) != ERR_OK) fail_msg("%s", error.text);
    assert_true(identity.lock_fd >= 0);
    return identity;
}

static void expect_refused(enum err expected, const char *part_of_sentence)
{
    struct store_identity identity;
    assert_int_equal(identity_open(&identity, dir.path, &whole, &error), expected);
    if (!strstr(error.text, part_of_sentence)) fail_msg("said: %s", error.text);
    assert_int_equal(identity.lock_fd, -1);
}

static void read_file(char bytes[FILE_SIZE])
{
    int fd = open(scratch_dir_file(&dir, "IDENTITY"), O_RDONLY);
    assert_int_equal(read(fd, bytes, FILE_SIZE), FILE_SIZE);
    close(fd);
}

static void write_file(const char *bytes, size_t size)
{
    int fd = open(scratch_dir_file(&dir, "IDENTITY"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static void it_is_made_once_and_stays(void **state)
{
    struct store_identity first = open_ok();
    identity_release(&first);
    struct store_identity second = open_ok();
    assert_int_equal(second.installation, first.installation);
    assert_memory_equal(&second.secret, &first.secret, sizeof first.secret);
    identity_release(&second);
}

static void two_stores_differ(void **state)
{
    struct store_identity first = open_ok();
    identity_release(&first);
    scratch_dir_release(&dir);
    scratch_dir_init(&dir);
    struct store_identity second = open_ok();
    assert_true(second.installation != first.installation);
    assert_memory_not_equal(&second.secret, &first.secret, sizeof first.secret);
    identity_release(&second);
}

static void the_directory_is_made(void **state)
{
    strcat(dir.path, "/sub");
    struct store_identity identity = open_ok();
    identity_release(&identity);
    struct stat file;
    assert_int_equal(stat(scratch_dir_file(&dir, "IDENTITY"), &file), 0);
    assert_int_equal(file.st_size, FILE_SIZE);
    assert_int_equal(file.st_mode & 077, 0); /* it holds a secret */
    *strrchr(dir.path, '/') = 0;
}

static void a_second_opener_is_refused_until_the_first_is_done(void **state)
{
    struct store_identity first = open_ok();
    expect_refused(ERR_BUSY, "in use");
    identity_release(&first);
    struct store_identity second = open_ok();
    identity_release(&second);
}

static void a_newer_format_is_refused_and_named(void **state)
{
    struct store_identity identity = open_ok();
    identity_release(&identity);
    char bytes[FILE_SIZE];
    read_file(bytes);
    put_u32(bytes + 8, 7);
    put_u64(bytes + 216, hash_checksum(bytes_of(bytes, 216)));
    write_file(bytes, sizeof bytes);
    expect_refused(ERR_CORRUPT, "format 7");
}

static void damage_is_refused_byte_by_byte(void **state)
{
    struct store_identity identity = open_ok();
    identity_release(&identity);
    char bytes[FILE_SIZE];
    read_file(bytes);
    for (unsigned at = 0; at < FILE_SIZE; at++) {
        bytes[at] ^= 0x10;
        write_file(bytes, sizeof bytes);
        expect_refused(ERR_CORRUPT, at < 8 ? "not a tally" : at < 12 ? "format" : "damaged");
        bytes[at] ^= 0x10;
    }
    for (size_t size = 0; size < FILE_SIZE; size += 31) {
        write_file(bytes, size);
        expect_refused(ERR_CORRUPT, "cut short");
    }
    write_file(bytes, sizeof bytes);
    identity = open_ok();
    identity_release(&identity);
}

/* Fingerprints of ids are on disk: with another scope every id would look new. */
static void another_scope_of_ids_is_refused(void **state)
{
    const struct identity_wish shared = {.ids_shared = true};
    struct store_identity identity;
    assert_int_equal(identity_open(&identity, dir.path, &shared, &error), ERR_OK);
    identity_release(&identity);
    expect_refused(ERR_INVALID, "events.idScope is tenant");
    assert_int_equal(identity_open(&identity, dir.path, &shared, &error), ERR_OK);
    identity_release(&identity);
}

/* A crash while it was being made leaves a file of another name. */
static void a_half_made_one_is_made_anew(void **state)
{
    int fd = open(scratch_dir_file(&dir, "IDENTITY.new"), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "tallyid\nhalf", 12), 12);
    close(fd);
    struct store_identity identity = open_ok();
    identity_release(&identity);
    assert_int_equal(access(scratch_dir_file(&dir, "IDENTITY.new"), F_OK), -1);
}

static void a_place_that_cannot_be_is_refused(void **state)
{
    struct store_identity identity;
    write_file("", 0);
    const char *path = scratch_dir_file(&dir, "IDENTITY/below");
    assert_int_equal(identity_open(&identity, path, &whole, &error), ERR_STORAGE);
    assert_non_null(strstr(error.text, "cannot make"));
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(it_is_made_once_and_stays),
        FILE_TEST(two_stores_differ),
        FILE_TEST(the_directory_is_made),
        FILE_TEST(a_second_opener_is_refused_until_the_first_is_done),
        FILE_TEST(a_newer_format_is_refused_and_named),
        FILE_TEST(damage_is_refused_byte_by_byte),
        FILE_TEST(another_scope_of_ids_is_refused),
        FILE_TEST(a_half_made_one_is_made_anew),
        FILE_TEST(a_place_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
