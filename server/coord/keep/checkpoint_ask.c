/* checkpoint_ask.c: a checkpoint that an operator asks for: the request, and its answer when the
 * checkpoint is made or has failed. */
#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"

#include <stdio.h>
#include <string.h>

/* the longest time that the answer for a made checkpoint waits until its cut is dropped */
#define CUT_GONE_NS UINT64_C(2000000000)

static void answer_again(struct coord_job *j)
{
    const struct coord_checkpoint *k = j->checkpoint;
    struct wire w = {.type = WIRE_TYPE_CHECKPOINT,
                     .reply = true,
                     .id = k->answered.id,
                     .status = k->answered.status,
                     .u.CHECKPOINT_reply = k->answered.reply};
    text_copy(w.error, sizeof w.error, k->answered.text);
    coord_send(j->fleet, k->answered.peer, wire_encode(&w));
}

/* to 0: there is no asker. */
static void answer(struct coord_job *j, peer_t to, uint64_t id, int status, const char *text,
                   struct wire_CHECKPOINT_reply reply)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (to == 0)
        return;
    k->answered.peer = to;
    k->answered.id = id;
    k->answered.status = status;
    text_copy(k->answered.text, sizeof k->answered.text, text);
    k->answered.reply = reply;
    answer_again(j);
}

void coord_checkpoint_answer(struct coord_job *j, int status, const char *text,
                             struct wire_CHECKPOINT_reply reply)
{
    peer_t asker = j->checkpoint->asker;
    SHOAL_ASSERT(j->checkpoint->state == CHECKPOINT_IDLE);
    j->checkpoint->asker = 0;
    answer(j, asker, j->checkpoint->asker_id, status, text, reply);
}

void coord_checkpoint_answer_made(struct coord_job *j, bool now)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (k->asker == 0 || k->state != CHECKPOINT_IDLE)
        return;
    bool dropping = coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_CUT_DROP) &&
                    env_now_ns(j->fleet->env) - k->made_ns < CUT_GONE_NS;
    if (now || !dropping)
        coord_checkpoint_answer(j, 0, "", k->made);
}

int coord_checkpoint_request(struct coord_job *j, struct coord_ask *a)
{
    struct coord_checkpoint *k = j->checkpoint;
    const char *name = a->request->u.CHECKPOINT.name;
    int rc = 0;
    a->silent = true; /* answered when the checkpoint is made, or has failed */
    /* a repeated request */
    if (k->asker == a->from && k->asker_id == a->request->id)
        return 0;
    if (k->answered.peer == a->from && k->answered.id == a->request->id) {
        answer_again(j);
        return 0;
    }
    if (name[0] != 0 && !manifest_name_ok(name))
        rc = err_set(&a->e, SHOAL_E_USAGE,
                     "'%s' is no name of a checkpoint: letters, digits, '.', '_' and '-', not "
                     "first a '.', not last .tmp",
                     name);
    else if (name[0] != 0 && strspn(name, "0123456789") == strlen(name))
        rc = err_set(&a->e, SHOAL_E_USAGE,
                     "'%s' is a number, as checkpoints without a name have: put a letter into it",
                     name);
    else if (name[0] == 0 && a->request->u.CHECKPOINT.without[0] != 0)
        rc = err_set(&a->e, SHOAL_E_USAGE,
                     "a checkpoint that lacks a server's rows gets no number, because it would be "
                     "taken for a whole one: give it a name");
    else if (k->state != CHECKPOINT_IDLE)
        rc = err_set(&a->e, SHOAL_E_BUSY, "checkpoint %s is being made: ask again when it is there",
                     k->name);
    if (rc == 0)
        rc = coord_checkpoint_begin(j, name, a->request->u.CHECKPOINT.without, CHECKPOINT_ANY,
                                    &a->e);
    if (rc != 0) {
        answer(j, a->from, a->request->id, rc, a->e.text,
               (struct wire_CHECKPOINT_reply){.rows = 0});
    } else if (k->state != CHECKPOINT_IDLE) {
        k->asker = a->from;
        k->asker_id = a->request->id;
    }
    return 0;
}
