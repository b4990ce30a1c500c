// cli.mjs -- runs `tally` subcommands against a server and hands back what they said.

import { runTally } from './server.mjs';

/** A function (...args) => {code, stdout, stderr} that speaks for one tenant of a server. */
export function cliFor(server, token, { env = {} } = {}) {
    return (...args) => runTally(args, { env: { TALLY_URL: server.url, TALLY_TOKEN: token, ...env } });
}
