/* secret.h -- the secret that tokens are signed with: kept for `serve --dev`, found by `token`.
 *
 * `serve --dev` makes a secret up where none is set and keeps it in its data directory, readable by
 * its owner only, so tokens are still good after a restart. `tally token` signs for a server that
 * runs elsewhere, so it looks where servers have their secrets. */
#ifndef TALLY_CLI_SECRET_H
#define TALLY_CLI_SECRET_H

#include "config/config.h"

#define SECRET_SIZE 65 /* 64 hex digits and a NUL */

/* The file in the data directory, and the one beside a config that the service's unit reads. */
#define SECRET_DEV_FILE "dev-secret"
#define SECRET_ENV_FILE "tally.env"

/* Random and fit for auth.jwtSecret. */
void secret_random(char secret_out[SECRET_SIZE]);

/* Reads what is kept in `data`, or keeps `secret` there if nothing is. ERR_STORAGE with errno. */
MUST_USE enum err secret_keep(const char *data, char secret[SECRET_SIZE]);

/* Where the config and the secret came from, for a message to a person; empty: they were given. */
#define SECRET_PLACE_SIZE 4200
struct secret_place {
    char found[SECRET_PLACE_SIZE];  /* the file that the secret was found in, if it was not named */
    char denied[SECRET_PLACE_SIZE]; /* a file that may hold it and may not be read */
};

/* Configs of installed servers, in the order in which they are looked for; ended by NULL. */
extern const char *const secret_installed[];

/* Loads the config of the server whose tokens are to be signed.
 *
 * (1) What is given decides: --config, --set and the environment. Only if none of them could hold a
 *     secret is it looked for: in the data directory of `serve --dev`, then in the first of
 *     `installed` that is there.
 * (2) A config without a secret has it in the file that its service reads, beside it, or in its
 *     data directory.
 *
 * Returns an exit code, with the sentence on stderr; the config is to be released either way.
 * Without a secret it is EXIT_GOOD, and auth_jwt_secret is empty. */
MUST_USE int secret_load_config(const struct config_source *given, const char *const *installed,
                                struct config *config_out, struct secret_place *place_out);

#endif
