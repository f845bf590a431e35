/* errand.c: see errand.h. */
#include "server/coord/errand.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "server/coord/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERRAND_REMEDY "see whether its file server and the network to it answer"
#define SECOND_NS UINT64_C(1000000000)

static void errands_begin(struct coord *c);

/* ---- the list -------------------------------------------------------------------------------- */

static void errand_append(struct coord *c, struct coord_errand *r)
{
    struct coord_errand **at = &c->errands.head;
    SHOAL_ASSERT(r->state == ERRAND_IDLE);
    while (*at != NULL)
        at = &(*at)->next;
    *at = r;
    r->next = NULL;
    r->state = ERRAND_WAITS;
    r->asked_ns = c->errands.ends ? 0 : env_now_ns(c->env);
    c->errands.count++;
}

static void errand_take_out(struct coord *c, struct coord_errand *r)
{
    struct coord_errand **at = &c->errands.head;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    SHOAL_ASSERT(c->errands.count > 0);
    c->errands.count--;
    r->state = ERRAND_IDLE;
}

static bool hangs(const struct coord *c, const struct coord_errand *r)
{
    return r->state == ERRAND_RUNS && env_now_ns(c->env) - r->begun_ns >= COORD_ERRAND_HANGS_NS;
}

/* The one that hangs in the folder; "": in any. NULL: none does. */
static const struct coord_errand *hanging(const struct coord *c, const char *folder)
{
    const struct coord_errand *r = c->errands.head;
    while (r != NULL && (!hangs(c, r) || (folder[0] != 0 && strcmp(r->folder, folder) != 0)))
        r = r->next;
    return r;
}

static const char *what_of(const struct coord_errand *r)
{
    return r->what == NULL ? "checkpoint folder" : r->what;
}

static void hang_text(const struct coord *c, const struct coord_errand *r, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "%s %.300s has not answered for %" PRIu64 " s", what_of(r),
                   r->folder, (env_now_ns(c->env) - r->begun_ns) / SECOND_NS);
}

bool coord_errand_hangs(const struct coord *c, uint32_t nth, char *text, size_t bytes)
{
    for (const struct coord_errand *r = c->errands.head; r != NULL; r = r->next)
        if (hangs(c, r) && nth-- == 0) {
            hang_text(c, r, text, bytes);
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
    struct coord *c = r->c;
    coord_errand_done done = r->done;
    SHOAL_ASSERT(c->errands.running > 0 && r->state == ERRAND_RUNS);
    c->errands.running--;
    r->state = ERRAND_WAITS;
    if (r->told)
        log_warn("%s %s answers again: it had not for %" PRIu64 " s", what_of(r), r->folder,
                 (env_now_ns(c->env) - r->begun_ns) / SECOND_NS);
    if (done != NULL) {
        struct err e = r->e;
        int rc = r->rc;
        errand_take_out(c, r);
        r->done = NULL;
        done(c, r, rc, &e);
        if (rc != 0)
            coord_errand_leave(c, r);
    } else if (r->undoes) {
        errand_take_out(c, r);
        r->free(r);
    } else {
        r->undoes = true; /* in its place: what comes behind it may want what it has */
    }
    errands_begin(c);
}

static void errand_run(struct coord *c, struct coord_errand *r)
{
    SHOAL_ASSERT(r->state == ERRAND_WAITS && c->errands.running < COORD_ERRAND_THREADS); /* 1 */
    r->state = ERRAND_RUNS;
    r->told = false;
    r->ran = true;
    r->begun_ns = env_now_ns(c->env);
    r->work = (struct env_work){.run = work_run, .done = work_done};
    c->errands.running++;
    env_work_start(c->env, &r->work);
}

/* The first that waits, where nothing runs but what hangs in other folders. */
static void errands_begin(struct coord *c)
{
    for (struct coord_errand *r = c->errands.head; r != NULL; r = r->next)
        if (c->errands.ends || (r->state == ERRAND_RUNS && !hangs(c, r)))
            return;
    for (struct coord_errand *r = c->errands.head;
         r != NULL && c->errands.running < COORD_ERRAND_THREADS; r = r->next)
        if (r->state == ERRAND_WAITS && hanging(c, r->folder) == NULL) {
            errand_run(c, r);
            return;
        }
}

/* ---- the owner's half ------------------------------------------------------------------------ */

void coord_errand_leave(struct coord *c, struct coord_errand *r)
{
    if (r == NULL)
        return;
    r->c = c;
    r->done = NULL;
    if (r->state == ERRAND_RUNS)
        return; /* it comes back here (work_done) */
    r->undoes = true;
    if (r->state == ERRAND_IDLE)
        errand_append(c, r);
    errands_begin(c);
}

void coord_errand_detach(struct coord_errand *r)
{
    if (r != NULL)
        r->done = NULL;
}

int coord_errand_check(const struct coord *c, const char *folder, struct err *e)
{
    char text[ERR_TEXT_MAX];
    bool full = c->errands.count >= COORD_ERRAND_LIST;
    const struct coord_errand *h = hanging(c, full ? "" : folder);
    if (h == NULL)
        return full ? err_set(e, SHOAL_E_BUSY,
                              "too much is being done in folders of checkpoints: ask "
                              "again in a moment")
                    : 0;
    hang_text(c, h, text, sizeof text);
    return err_set(e, SHOAL_E_UNAVAILABLE, "%s: look at its file system, and ask again", text);
}

int coord_errand_start(struct coord *c, struct coord_errand *r, coord_errand_done done,
                       struct err *e)
{
    SHOAL_ASSERT(r->state == ERRAND_IDLE && done != NULL && !r->undoes);
    int rc = coord_errand_check(c, r->folder, e);
    if (rc == 0) {
        r->c = c;
        r->done = done;
        errand_append(c, r);
        errands_begin(c);
    } else if (r->ran) {
        coord_errand_leave(c, r);
    } else {
        r->free(r);
    }
    return rc;
}

/* The owner gives the errand up: it has waited for COORD_ERRAND_MOST_NS. */
static void errand_late(struct coord *c, struct coord_errand *r)
{
    char text[ERR_TEXT_MAX];
    struct err e;
    const struct coord_errand *h = hanging(c, r->folder);
    coord_errand_done done = r->done;
    h = h != NULL ? h : hanging(c, "");
    if (h != NULL)
        hang_text(c, h, text, sizeof text);
    else
        (void)snprintf(text, sizeof text,
                       "%s %.300s had no turn within %" PRIu64 " s, behind other folders",
                       what_of(r), r->folder, COORD_ERRAND_MOST_NS / SECOND_NS);
    (void)err_set(&e, SHOAL_E_UNAVAILABLE, "%s: %s", text,
                  h != NULL ? ERRAND_REMEDY : "ask again in a moment");
    r->done = NULL;
    done(c, r, e.code, &e);
    coord_errand_leave(c, r);
}

static void hangs_tell(const struct coord *c)
{
    char text[ERR_TEXT_MAX];
    for (struct coord_errand *r = c->errands.head; r != NULL; r = r->next)
        if (hangs(c, r) && !r->told) {
            hang_text(c, r, text, sizeof text);
            log_warn("%s: training goes on, and what is to be done there waits; " ERRAND_REMEDY,
                     text);
            r->told = true;
        }
}

void coord_errand_tick(struct coord *c)
{
    uint64_t now = env_now_ns(c->env);
    struct coord_errand *r = c->errands.head;
    hangs_tell(c);
    while (r != NULL)
        if (r->done != NULL && now - r->asked_ns >= COORD_ERRAND_MOST_NS) {
            errand_late(c, r);
            r = c->errands.head; /* the list may be another */
        } else {
            r = r->next;
        }
    errands_begin(c);
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

void coord_errand_let_go(struct coord *c, const char *folder, int *hold)
{
    struct letting *l = *hold == COORD_FOLDER_NONE ? NULL : calloc(1, sizeof *l);
    if (l == NULL) { /* nothing to do; or without memory: here */
        if (*hold != COORD_FOLDER_NONE)
            c->options.folder->let_go(hold);
        return;
    }
    l->errand.undo = letting_undo;
    l->errand.free = letting_free;
    l->ops = c->options.folder;
    l->hold = *hold;
    (void)snprintf(l->errand.folder, sizeof l->errand.folder, "%s", folder);
    *hold = COORD_FOLDER_NONE;
    coord_errand_leave(c, &l->errand);
}

/* ---- the end --------------------------------------------------------------------------------- */

void coord_errand_end(struct coord *c)
{
    c->errands.ends = true;
    for (struct coord_errand *r = c->errands.head; r != NULL; r = r->next)
        r->state = ERRAND_WAITS;
}

void coord_errand_close(struct coord *c)
{
    SHOAL_ASSERT(c->errands.ends);
    while (c->errands.head != NULL) {
        struct coord_errand *r = c->errands.head;
        errand_take_out(c, r);
        r->undo(r);
        r->free(r);
    }
}
