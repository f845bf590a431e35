/* errand.c: the list of errands, and their life; errand.h has the rules. */
#include "server/coord/fleet/errand.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"
#include "server/coord/fleet/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERRAND_REMEDY "see whether its file server and the network to it answer"
#define SECOND_NS UINT64_C(1000000000)

/* ---- the list -------------------------------------------------------------------------------- */

static void errand_append(struct coord_fleet *f, struct coord_errand *r)
{
    struct coord_errand **at = &f->errands.head;
    SHOAL_ASSERT(r->state == ERRAND_IDLE);
    while (*at != NULL)
        at = &(*at)->next;
    *at = r;
    r->next = NULL;
    r->state = ERRAND_WAITS;
    r->asked_ns = f->errands.ends ? 0 : env_now_ns(f->env);
    f->errands.count++;
}

static void errand_take_out(struct coord_fleet *f, struct coord_errand *r)
{
    struct coord_errand **at = &f->errands.head;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    SHOAL_ASSERT(f->errands.count > 0);
    f->errands.count--;
    r->state = ERRAND_IDLE;
}

static bool hangs(const struct coord_fleet *f, const struct coord_errand *r)
{
    return r->state == ERRAND_RUNS && env_now_ns(f->env) - r->begun_ns >= COORD_ERRAND_HANGS_NS;
}

/* Returns an errand that hangs in the folder; "": in any folder. NULL: none hangs. */
static const struct coord_errand *hanging(const struct coord_fleet *f, const char *folder)
{
    const struct coord_errand *r = f->errands.head;
    while (r != NULL && (!hangs(f, r) || (folder[0] != 0 && strcmp(r->folder, folder) != 0)))
        r = r->next;
    return r;
}

static const char *what_of(const struct coord_errand *r)
{
    return text_or(r->what, "checkpoint folder");
}

static void hang_text(const struct coord_fleet *f, const struct coord_errand *r, char *text,
                      size_t bytes)
{
    (void)snprintf(text, bytes, "%s %.300s has not answered for %" PRIu64 " s", what_of(r),
                   r->folder, (env_now_ns(f->env) - r->begun_ns) / SECOND_NS);
}

bool coord_errand_hangs(const struct coord_fleet *f, uint32_t nth, char *text, size_t bytes)
{
    for (const struct coord_errand *r = f->errands.head; r != NULL; r = r->next)
        if (hangs(f, r) && nth-- == 0) {
            hang_text(f, r, text, bytes);
            return true;
        }
    return false;
}

/* ---- running --------------------------------------------------------------------------------- */

static void work_run(struct env_work *w) /* on a thread of the pool */
{
    struct coord_errand *r = container_of(w, struct coord_errand, work);
    if (r->undoes)
        r->undo(r);
    else
        r->rc = r->run(r, &r->e);
}

static void work_done(struct env_work *w)
{
    struct coord_errand *r = container_of(w, struct coord_errand, work);
    struct coord_fleet *f = r->fleet;
    coord_errand_done done = r->done;
    SHOAL_ASSERT(f->errands.running > 0 && r->state == ERRAND_RUNS);
    f->errands.running--;
    r->state = ERRAND_WAITS;
    if (r->told)
        log_warn("%s %s answers again: it had not for %" PRIu64 " s", what_of(r), r->folder,
                 (env_now_ns(f->env) - r->begun_ns) / SECOND_NS);
    if (done != NULL) {
        struct err e = r->e;
        int rc = r->rc;
        errand_take_out(f, r);
        r->done = NULL;
        done(r->context, r, rc, &e);
        if (rc != 0)
            coord_errand_leave(f, r);
    } else if (r->undoes) {
        errand_take_out(f, r);
        r->free(r);
    } else {
        r->undoes = true; /* it keeps its place: an errand behind it may need what it holds */
    }
    coord_fleet_end(f);
}

static void errand_run(struct coord_fleet *f, struct coord_errand *r)
{
    SHOAL_ASSERT(r->state == ERRAND_WAITS && f->errands.running < COORD_ERRAND_THREADS); /* 1 */
    r->state = ERRAND_RUNS;
    r->told = false;
    r->ran = true;
    r->begun_ns = env_now_ns(f->env);
    r->work = (struct env_work){.run = work_run, .done = work_done};
    f->errands.running++;
    env_work_start(f->env, &r->work);
}

void coord_errand_begin(struct coord_fleet *f)
{
    if (coord_fleet_waits(f))
        return;
    for (struct coord_errand *r = f->errands.head; r != NULL; r = r->next)
        if (f->errands.ends || (r->state == ERRAND_RUNS && !hangs(f, r)))
            return;
    for (struct coord_errand *r = f->errands.head;
         r != NULL && f->errands.running < COORD_ERRAND_THREADS; r = r->next)
        if (r->state == ERRAND_WAITS && hanging(f, r->folder) == NULL) {
            errand_run(f, r);
            return;
        }
}

/* ---- the owner's half ------------------------------------------------------------------------ */

void coord_errand_leave(struct coord_fleet *f, struct coord_errand *r)
{
    if (r == NULL)
        return;
    r->fleet = f;
    r->done = NULL;
    if (r->state == ERRAND_RUNS)
        return; /* work_done brings it back here */
    r->undoes = true;
    if (r->state == ERRAND_IDLE)
        errand_append(f, r);
    coord_errand_begin(f);
}

void coord_errand_detach(struct coord_errand *r)
{
    if (r != NULL)
        r->done = NULL;
}

int coord_errand_check(const struct coord_fleet *f, const char *folder, struct err *e)
{
    char text[ERR_TEXT_MAX];
    bool full = f->errands.count >= COORD_ERRAND_LIST;
    const struct coord_errand *h = hanging(f, text_if(!full, folder));
    if (h == NULL && full)
        return err_set(e, SHOAL_E_BUSY,
                       "too much is being done in folders of checkpoints: ask again in a moment");
    if (h == NULL)
        return 0;
    hang_text(f, h, text, sizeof text);
    return err_set(e, SHOAL_E_UNAVAILABLE, "%s: look at its file system, and ask again", text);
}

int coord_errand_start(struct coord_fleet *f, struct coord_errand *r, void *context,
                       coord_errand_done done, struct err *e)
{
    SHOAL_ASSERT(r->state == ERRAND_IDLE && done != NULL && !r->undoes);
    int rc = coord_errand_check(f, r->folder, e);
    if (rc == 0) {
        r->fleet = f;
        r->context = context;
        r->done = done;
        errand_append(f, r);
        coord_errand_begin(f);
    } else if (r->ran) {
        coord_errand_leave(f, r);
    } else {
        r->free(r);
    }
    return rc;
}

/* The errand has waited for COORD_ERRAND_MOST_NS: its owner gets UNAVAILABLE, and it is undone. */
static void errand_late(struct coord_fleet *f, struct coord_errand *r)
{
    char text[ERR_TEXT_MAX];
    struct err e;
    const struct coord_errand *h = hanging(f, r->folder);
    coord_errand_done done = r->done;
    if (h == NULL)
        h = hanging(f, "");
    if (h != NULL)
        hang_text(f, h, text, sizeof text);
    else
        (void)snprintf(text, sizeof text,
                       "%s %.300s had no turn within %" PRIu64 " s, behind other folders",
                       what_of(r), r->folder, COORD_ERRAND_MOST_NS / SECOND_NS);
    (void)err_set(&e, SHOAL_E_UNAVAILABLE, "%s: %s", text,
                  h != NULL ? ERRAND_REMEDY : "ask again in a moment");
    r->done = NULL;
    done(r->context, r, e.code, &e);
    coord_errand_leave(f, r);
}

static void hangs_tell(const struct coord_fleet *f)
{
    char text[ERR_TEXT_MAX];
    for (struct coord_errand *r = f->errands.head; r != NULL; r = r->next)
        if (hangs(f, r) && !r->told) {
            hang_text(f, r, text, sizeof text);
            log_warn("%s: training goes on, and what is to be done there waits; " ERRAND_REMEDY,
                     text);
            r->told = true;
        }
}

void coord_errand_tick(struct coord_fleet *f)
{
    uint64_t now = env_now_ns(f->env);
    struct coord_errand *r = f->errands.head;
    hangs_tell(f);
    while (r != NULL)
        if (r->done != NULL && now - r->asked_ns >= COORD_ERRAND_MOST_NS) {
            errand_late(f, r);
            r = f->errands.head; /* `done` may have changed the list */
        } else {
            r = r->next;
        }
    coord_errand_begin(f);
}

/* ---- small ones ------------------------------------------------------------------------------ */

struct letting {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    int hold;
};

static void letting_undo(struct coord_errand *r)
{
    struct letting *l = container_of(r, struct letting, errand);
    l->ops->let_go(&l->hold);
}

static void letting_free(struct coord_errand *r)
{
    free(container_of(r, struct letting, errand));
}

void coord_errand_let_go(struct coord_fleet *f, const char *folder, int *hold)
{
    if (*hold == COORD_FOLDER_NONE)
        return;
    struct letting *l = calloc(1, sizeof *l);
    if (l == NULL) { /* without memory: closed on this thread */
        f->options.folder->let_go(hold);
        return;
    }
    l->errand.undo = letting_undo;
    l->errand.free = letting_free;
    l->ops = f->options.folder;
    l->hold = *hold;
    text_copy(l->errand.folder, sizeof l->errand.folder, folder);
    *hold = COORD_FOLDER_NONE;
    coord_errand_leave(f, &l->errand);
}

/* ---- the end --------------------------------------------------------------------------------- */

void coord_errand_end(struct coord_fleet *f)
{
    f->errands.ends = true;
    for (struct coord_errand *r = f->errands.head; r != NULL; r = r->next)
        r->state = ERRAND_WAITS;
}

void coord_errand_close(struct coord_fleet *f)
{
    SHOAL_ASSERT(f->errands.ends);
    while (f->errands.head != NULL) {
        struct coord_errand *r = f->errands.head;
        errand_take_out(f, r);
        r->undo(r);
        r->free(r);
    }
}
