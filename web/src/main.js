// main.js -- signing in and out; everything else is the board's.

import { Api } from './api.js';
import { Board } from './board.js';
import { el, setText, show } from './dom.js';
import { moment } from './format.js';
import { forgetSession, savedSession, saveSession, sessionFrom } from './session.js';

const byId = (id) => document.getElementById(id);
const page = Object.fromEntries(['sign-in', 'sign-in-form', 'sign-in-error', 'token', 'tenant', 'board', 'status',
    'sign-out', 'who', 'tenant-form', 'tenant-choice', 'tenant-list', 'token-command'].map((id) => [id, byId(id)]));

let board = null;
let session = null;

function status(kind, text, state) {
    show(page.status, true);
    setText(page.status, text);
    page.status.className = `status ${kind}`;
    if (state?.admin && page['tenant-form'].hidden) offerTenants();
}

const FLAWS = {
    signature: 'This server did not sign this token: it is from another one, or not complete.',
    'wrong issuer': 'This token is from another issuer.',
    'not yet valid': 'This token is not valid yet.',
    'wrong audience': 'This token is for another service.',
    revoked: 'This token has been revoked.',
};

/** Words for what the server thinks of the token. Whether it has expired goes by the server's clock. */
function reasonOf(error) {
    if (error.flaw === 'expired') return `This token expired${session.expiresAt ? ` at ${moment(session.expiresAt)}` : ''}. Paste a new one.`;
    if (error.status === 401) return FLAWS[error.flaw] ?? 'The server did not accept this token. Is it complete?';
    if (error.status === 403) return 'This token has no read scope: it may not look at anything.';
    if (error.status === 404) return `This token may not see the tenant ${session.tenant}.`;
    return error.message;
}

function showSignIn(problem) {
    board?.destroy();
    board = null;
    for (const id of ['board', 'status', 'sign-out', 'who', 'tenant-form']) show(page[id], false);
    show(page['sign-in'], true);
    setText(page['sign-in-error'], problem ?? '');
    show(page['sign-in-error'], Boolean(problem));
    document.title = 'tally';
    page.token.focus();
    showCommand();
}

/** The command that makes a token for this very server, if it says one. */
async function showCommand() {
    const reply = await fetch('/assets/token-command.txt', { credentials: 'omit' }).catch(() => null);
    if (reply?.ok) setText(page['token-command'], (await reply.text()).trim());
}

function showBoard() {
    show(page['sign-in'], false);
    show(page['sign-in-error'], false);
    show(page.board, true);
    show(page['sign-out'], true);
    show(page.who, true);
    setText(page.who, session.tenant);
    document.title = `${session.tenant} \u2013 tally`;
    board?.destroy();
    board = new Board(page.board, session, {
        status,
        refused: (error) => {
            forgetSession();
            showSignIn(reasonOf(error));
        },
    });
}

/** Administrators may look at any tenant; those with a status are offered by name. */
async function offerTenants() {
    show(page['tenant-form'], true);
    show(page.who, false);
    page['tenant-choice'].value = session.tenant;
    const { tenants = [] } = await new Api(session).tenants({ limit: 1000 }).catch(() => ({}));
    const names = tenants.map((tenant) => tenant.tenant_id ?? tenant.tenantId ?? tenant);
    page['tenant-list'].replaceChildren(...names.filter((name) => typeof name === 'string').map((value) => el('option', { value })));
}

function begin(next) {
    session = next;
    saveSession(session);
    showBoard();
}

page['sign-in-form'].addEventListener('submit', (event) => {
    event.preventDefault();
    const next = sessionFrom(page.token.value, page.tenant.value);
    if (next.error) {
        showSignIn(next.error);
        return;
    }
    page.token.value = '';
    begin(next);
    byId('main').focus({ preventScroll: true });
});

page['tenant-form'].addEventListener('submit', (event) => {
    event.preventDefault();
    const tenant = page['tenant-choice'].value.trim();
    if (tenant && tenant !== session.tenant) begin({ ...session, tenant });
});

page['sign-out'].addEventListener('click', () => {
    forgetSession();
    showSignIn();
});

/** A link that signs in, http://host/#token=..: the token leaves the address before anything else is done. */
function followLink() {
    const link = new URLSearchParams(location.hash.slice(1));
    if (!link.has('token')) return false;
    history.replaceState(null, '', location.pathname);
    const next = sessionFrom(link.get('token'), link.get('tenant') ?? '');
    if (next.error) showSignIn(next.error);
    else begin(next);
    return true;
}

addEventListener('hashchange', followLink);
document.addEventListener('visibilitychange', () => !document.hidden && board?.wake());
addEventListener('online', () => board?.wake());

if (!followLink()) {
    session = savedSession();
    if (session) showBoard();
    else showSignIn();
}
