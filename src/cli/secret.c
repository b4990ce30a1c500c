/* secret.c -- keeps a secret in a file of its own, and looks for one in the few places there are.
 */
#include "cli/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

#define ENV_BYTES_MAX (64u << 10)
#define PATH_BYTES 4100

const char *const secret_installed[] = {"/etc/tally/tally.yaml", "/etc/tally.yaml", NULL};

void secret_random(char secret_out[SECRET_SIZE])
{
    unsigned char random[SECRET_SIZE / 2];
    must(RAND_bytes(random, sizeof random) == 1);
    for (unsigned i = 0; i < sizeof random; i++)
        snprintf(secret_out + 2 * i, 3, "%02x", random[i]);
}

/* -- Kept in the data directory ---------------------------------------------------------------- */

/* Appends a file that is no larger than the buffer. ERR_STORAGE with errno. */
static enum err read_small(const char *path, struct buf *text)
{
    FILE *file = fopen(path, "re");
    if (!file) return ERR_STORAGE;
    char part[4096];
    size_t got;
    while ((got = fread(part, 1, sizeof part, file)) > 0)
        buf_add(text, bytes_of(part, got));
    bool good = !ferror(file) && !text->failed;
    fclose(file);
    if (text->failed) errno = EFBIG;
    return good ? ERR_OK : ERR_STORAGE;
}

static bool is_secret(struct bytes text)
{
    static const char digits[] = "0123456789abcdef";
    if (text.size != SECRET_SIZE - 1) return false;
    for (size_t i = 0; i < text.size; i++)
        if (!memchr(digits, text.data[i], sizeof digits - 1)) return false;
    return true;
}

/* ERR_NOT_FOUND: there is no file, or it was not written whole. */
static enum err read_kept(const char *path, char secret_out[SECRET_SIZE])
{
    struct buf text;
    buf_init(&text, 4096);
    enum err e = read_small(path, &text);
    if (e != ERR_OK && errno == ENOENT) e = ERR_NOT_FOUND;
    struct bytes line = e == ERR_OK && text.data ? buf_bytes(&text) : BYTES("");
    if (line.size && line.data[line.size - 1] == '\n') line.size--;
    if (e == ERR_OK && !is_secret(line)) e = ERR_NOT_FOUND;
    if (e == ERR_OK) snprintf(secret_out, SECRET_SIZE, "%.*s", (int)line.size, line.data);
    buf_release(&text);
    return e;
}

static enum err write_kept(const char *path, const char *secret)
{
    char fresh[PATH_BYTES + 8];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    unlink(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return ERR_STORAGE;
    bool written = dprintf(fd, "%s\n", secret) == SECRET_SIZE && fsync(fd) == 0;
    if (close(fd) != 0 || !written || rename(fresh, path) != 0) {
        int why = errno;
        unlink(fresh);
        errno = why;
        return ERR_STORAGE;
    }
    return ERR_OK;
}

enum err secret_keep(const char *data, char secret[SECRET_SIZE])
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/" SECRET_DEV_FILE, data);
    enum err e = read_kept(path, secret);
    if (e != ERR_NOT_FOUND) return e;
    if (mkdir(data, 0700) != 0 && errno != EEXIST) return ERR_STORAGE;
    return write_kept(path, secret);
}

/* -- Looked for -------------------------------------------------------------------------------- */

/* The lines of an environment file as a service manager would give them, and then `more`, which
 * come later and so win. The caller frees the list; the words stay those of `text`. */
static const char **environment_of(char *text, const char *const *more)
{
    size_t count = 1;
    for (const char *at = text; *at; at++)
        count += *at == '\n';
    size_t lines = count;
    for (const char *const *each = more; each && *each; each++)
        count++;
    const char **list = must_calloc(lines + count + 1, sizeof *list);
    size_t used = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        line[strcspn(line, "\r")] = '\0';
        if (line[0] != '#' && strchr(line, '=')) list[used++] = line;
    }
    for (const char *const *each = more; each && *each; each++)
        list[used++] = *each;
    return list;
}

static void note_denied(struct secret_place *place, const char *path)
{
    if (errno == EACCES) snprintf(place->denied, sizeof place->denied, "%s", path);
}

/* The text of the environment file beside config `file`, empty without one. The caller frees it. */
static char *text_beside(const char *file, char path_out[PATH_BYTES], struct secret_place *place)
{
    const char *slash = strrchr(file, '/');
    struct buf text;
    buf_init(&text, ENV_BYTES_MAX);
    snprintf(path_out, PATH_BYTES, "%.*s" SECRET_ENV_FILE, slash ? (int)(slash + 1 - file) : 0,
             file);
    if (read_small(path_out, &text) != ERR_OK) note_denied(place, path_out);
    char *copy = strndup(text.size ? text.data : "", text.size);
    must(copy != NULL);
    if (text.data) explicit_bzero(text.data, text.size);
    buf_release(&text);
    return copy;
}

/* A secret that the config does not have stands in its data directory, if that is of
 * a `serve --dev`. */
static void take_kept(struct config *config, struct secret_place *place)
{
    char secret[SECRET_SIZE];
    char path[PATH_BYTES];
    if (config->auth_jwt_secret[0]) return;
    snprintf(path, sizeof path, "%s/" SECRET_DEV_FILE, config->data);
    enum err e = read_kept(path, secret);
    if (e == ERR_STORAGE) note_denied(place, path);
    if (e != ERR_OK) return;
    free(config->auth_jwt_secret);
    config->auth_jwt_secret = strdup(secret);
    must(config->auth_jwt_secret != NULL);
    snprintf(place->found, sizeof place->found, "%s", path);
}

static int load_given(const struct config_source *given, struct config *config_out,
                      struct secret_place *place)
{
    int code = cli_load_config(given, config_out);
    if (!code) take_kept(config_out, place);
    return code;
}

static bool has_secret(const struct config_source *source)
{
    struct config config;
    struct config_report report;
    config_report_init(&report);
    bool has = config_load(&config, source, &report) == ERR_OK && config.auth_jwt_secret[0];
    config_report_release(&report);
    config_release(&config);
    return has;
}

static int load_file(const struct config_source *given, const char *file, struct config *config_out,
                     struct secret_place *place)
{
    char path[PATH_BYTES];
    struct config_source source = *given;
    source.file = file;
    bool said = has_secret(&source);
    char *text = text_beside(file, path, place);
    size_t size = strlen(text);
    const char **environment = environment_of(text, given->environment);
    source.environment = environment;
    int code = cli_load_config(&source, config_out);
    if (!code && !said && config_out->auth_jwt_secret[0])
        snprintf(place->found, sizeof place->found, "%s", path);
    if (!code) take_kept(config_out, place);
    free((void *)environment);
    explicit_bzero(text, size);
    free(text);
    return code;
}

int secret_load_config(const struct config_source *given, const char *const *installed,
                       struct config *config_out, struct secret_place *place_out)
{
    *place_out = (struct secret_place){0};
    if (given->file) return load_file(given, given->file, config_out, place_out);
    int code = load_given(given, config_out, place_out);
    if (code || config_out->auth_jwt_secret[0]) return code;
    for (; *installed; installed++) {
        if (access(*installed, F_OK) != 0) continue;
        config_release(config_out);
        return load_file(given, *installed, config_out, place_out);
    }
    return code;
}
