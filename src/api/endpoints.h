/* endpoints.h -- the functions behind the routes, for the table in route.c. */
#ifndef TALLY_API_ENDPOINTS_H
#define TALLY_API_ENDPOINTS_H

#include "wire/exchange.h"

struct call;

/* change.c: one operation on one cell. route->detail is an enum change_call. */
enum change_call {
    CHANGE_INCREMENT,
    CHANGE_DECREMENT,
    CHANGE_INCREMENT_SYNC,
    CHANGE_DECREMENT_SYNC,
    CHANGE_SET,
};
enum request_verdict change_one(struct call *call);
enum request_verdict change_delete(struct call *call);

/* batch.c */
enum request_verdict batch_post(struct call *call);

/* reads.c */
enum request_verdict read_get(struct call *call);
enum request_verdict read_sum(struct call *call);
enum request_verdict read_series(struct call *call);
enum request_verdict read_list(struct call *call);

/* query.c */
enum request_verdict query_post(struct call *call);

/* cells.c: the dimension sets of a rule counter. */
enum request_verdict cells_page(struct call *call);

/* busiest.c */
enum request_verdict busiest_get(struct call *call);

/* windows.c */
enum request_verdict windows_get(struct call *call);

/* usage.c: a tenant's counters of group `usage`. */
enum request_verdict usage_get(struct call *call);
enum request_verdict usage_health(struct call *call);

/* tenants.c */
enum request_verdict admin_tenants(struct call *call);

/* lanes.c */
enum request_verdict admin_lanes(struct call *call);
enum request_verdict admin_nodes(struct call *call);

/* admin.c */
enum request_verdict admin_reload(struct call *call);

/* clock.c */
enum request_verdict clock_get(struct call *call);
enum request_verdict clock_post(struct call *call);

/* events.c */
enum request_verdict events_post(struct call *call);

/* history.c: what is retained. */
enum request_verdict history_events(struct call *call);
enum request_verdict history_event(struct call *call);
enum request_verdict history_duplicates(struct call *call);

/* ops.c */
enum request_verdict ops_health(struct call *call);
enum request_verdict ops_ready(struct call *call);
enum request_verdict ops_metrics(struct call *call);

/* openapi.c */
enum request_verdict openapi_get(struct call *call);

/* page.c: the dashboard. */
enum request_verdict page_get(struct call *call);
enum request_verdict page_asset(struct call *call);

/* streams.c */
enum request_verdict stream_get(struct call *call);

/* reconcile.c */
enum request_verdict reconcile_post_request(struct call *call);
enum request_verdict reconcile_post_run(struct call *call);
enum request_verdict reconcile_get_drift(struct call *call);
enum request_verdict reconcile_get_status(struct call *call);

/* errands.c: route->detail is an enum api_errand. */
enum request_verdict errands_ask(struct call *call);
enum request_verdict errands_list(struct call *call);
enum request_verdict errands_remove(struct call *call);

/* replica/journal.c */
enum request_verdict replica_journal(struct call *call);
enum request_verdict replica_snapshot(struct call *call);
enum request_verdict replica_piece(struct call *call);
enum request_verdict replica_snapshot_end(struct call *call);

/* replica/followers.c */
enum request_verdict admin_followers(struct call *call);

/* jobs.c */
enum request_verdict jobs_rebuild(struct call *call);
enum request_verdict jobs_get(struct call *call);
enum request_verdict jobs_forget(struct call *call);

#endif
