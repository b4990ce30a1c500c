/* apply_import.h -- deciding what an import brings: shared by the steps of core/apply.h only. */
#ifndef TALLY_CORE_APPLY_IMPORT_H
#define TALLY_CORE_APPLY_IMPORT_H

#include "core/apply.h"

/* Puts the cell of an OP_IMPORT as it is, whatever stood there. */
enum err decide_import(struct apply *apply, struct op *op, bool *changed_out);

/* Remembers the id or key of an OP_IMPORT_ID, unless what is known of it is newer or came here;
 * adds its cause. */
void decide_import_id(struct apply *apply, struct op *op);

/* Keeps the event or duplicate of an OP_IMPORT_EVENT, and an event's id; adds its cause. Nothing
 * happens if an event of that id came here. */
void decide_import_event(struct apply *apply, struct op *op);

#endif
