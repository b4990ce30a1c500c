/* cors.h -- which pages of other sites may read replies: those of cors.origins, and no others.
 *
 * A browser lets a page send a request, and keeps the reply from it unless the reply says that the
 * page's origin may have it. So a page that is not listed is answered as ever, without that line.
 * tally has no cookies, and credentials are never allowed: a page has the token it was given, or
 * none. */
#ifndef TALLY_API_AUTH_CORS_H
#define TALLY_API_AUTH_CORS_H

#include "api/route.h"
#include "config/config.h"

/* Adds the lines that every reply to this request has, a refusal too: so it is to be called before
 * anything is known of the request. */
void cors_begin(const struct config_origins *origins, struct exchange *exchange);

/* True: it is a preflight by a page that may ask, and the reply is filled. It names the methods
 * that the path takes, match->allow. */
bool cors_preflight(const struct config_origins *origins, struct exchange *exchange,
                    const struct route_match *match);

#endif
