/* space.c: disk space in use, space that may still be used, and reclaiming.
 *
 * 1. The first walk comes before the first push, on the shard's thread. [test: test_space]
 * 2. Bytes handed over before a walk began are in the files that it visits, or in the store's
 *    memory, which is added; later bytes are counted separately. Nothing is therefore left out, and
 *    bytes written during a walk count twice until the next one. [assert: space_taken]
 * 3. Writing all images once stays within the limit, because that much was kept free when pushes
 *    were still accepted. [test: test_space]
 *
 *     enough --over--> refused: RECLAIM_WRITE --all written (flush.c)--> RECLAIM_TIDY
 *        ^                                                                   |
 *        +--------------------------------- walk ----------------------------+
 *                            (or refused until a later walk) */
#include "embedding/engine/space.h"

#include "embedding/engine/flush.h"
#include "embedding/engine/guard.h"
#include "embedding/engine/share.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH 8 /* most nested folders */

/* ---- bytes of folders ---- */

struct named { /* a file with several names */
    dev_t device;
    ino_t inode;
    uint64_t bytes;
};

struct walk {
    uint64_t bytes;
    struct named *named; /* owned */
    size_t count, room;
    bool failed;
};

static void add_named(struct walk *w, const struct stat *st, uint64_t bytes)
{
    if (array_room(&w->named, w->count, &w->room, 256) != 0) {
        w->failed = true;
        return;
    }
    w->named[w->count++] = (struct named){st->st_dev, st->st_ino, bytes};
}

/* Space may be reserved for a file that is not written yet, and a written file may have no blocks
 * yet. */
static uint64_t bytes_of(const struct stat *st)
{
    uint64_t blocks = (uint64_t)st->st_blocks * 512, size = (uint64_t)st->st_size;

    if (S_ISREG(st->st_mode) && size > blocks)
        return size;

    return blocks;
}

static void walk_folder(struct walk *w, const char *path, int depth)
{
    struct file_walk walk;
    const char *entry;
    if (depth >= DEPTH || !file_walk_open(&walk, path))
        return; /* it has just been deleted */
    while ((entry = file_walk_next(&walk)) != NULL) {
        char inner[LIMIT_PATH + 256];
        struct stat st;
        int n = snprintf(inner, sizeof inner, "%s/%s", path, entry);
        if (n < 0 || (size_t)n >= sizeof inner || lstat(inner, &st) != 0)
            continue;
        if (S_ISREG(st.st_mode) && st.st_nlink > 1)
            add_named(w, &st, bytes_of(&st));
        else
            w->bytes += bytes_of(&st);
        if (S_ISDIR(st.st_mode))
            walk_folder(w, inner, depth + 1);
    }
    file_walk_close(&walk);
}

static int by_file(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    if (x->device != y->device)
        return (x->device > y->device) - (x->device < y->device);
    return (x->inode > y->inode) - (x->inode < y->inode);
}

uint64_t space_walk(char *const *folder, uint32_t count)
{
    struct walk w = {0};
    for (uint32_t i = 0; i < count; i++)
        walk_folder(&w, folder[i], 0);
    if (w.count > 0)
        qsort(w.named, w.count, sizeof *w.named, by_file);
    for (size_t i = 0; i < w.count; i++)
        if (i == 0 || by_file(&w.named[i], &w.named[i - 1]) != 0)
            w.bytes += w.named[i].bytes;
    free(w.named);
    return w.failed ? UINT64_MAX : w.bytes;
}

/* ---- DIR/parts, a path a line: read at the start, written after a change ---- */

static void parts_write(const struct engine *g)
{
    char path[LIMIT_PATH], made[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/parts", g->dir);
    snprintf(made, sizeof made, "%s/parts.tmp", g->dir);
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    for (uint32_t i = 0; f != NULL && i < g->space.parts; i++)
        fprintf(f, "%s\n", g->space.part[i]);
    if (f == NULL || fclose(f) != 0 ||
        file_write_whole(path, made, text, bytes, 0666, FILE_LASTS_PROCESS) != 0)
        log_warn(
            "cannot write %s: %s; after a restart parts of checkpoints are not counted as `disk`",
            path, strerror(errno));
    free(text);
}

static void parts_read(struct engine *g)
{
    char path[LIMIT_PATH], line[LIMIT_PATH + 2];
    snprintf(path, sizeof path, "%s/parts", g->dir);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return;
    while (g->space.parts < SPACE_PARTS && fgets(line, sizeof line, f) != NULL) {
        size_t length = strcspn(line, "\n");
        if (length == 0 || line[length] == '\0' || line[0] != '/')
            continue; /* truncated, or not one of our paths */
        line[length] = '\0';
        if ((g->space.part[g->space.parts] = strdup(line)) != NULL)
            g->space.parts++;
    }
    fclose(f);
}

#define LOOK_NS UINT64_C(100000000)
#define ASK_BYTES (1u << 20) /* bytes appended between two queries of the file system */
/* for one compaction of small pairs: RocksDB's 25 files of 64 MiB, and one */
#define COMPACT_MOST (UINT64_C(1664) << 20)
#define SUNDRIES (1u << 20) /* logs and manifests */

/* ---- figures ---- */

static uint64_t watermark(const struct engine *g, const struct file_room *disk)
{
    if (g->options.disk_watermark > 0)
        return g->options.disk_watermark;

    return space_free_least(disk->bytes);
}

bool space_left(const struct engine *g, uint64_t *left, uint64_t *least)
{
    struct file_room disk;
    if (file_room(g->dir, &disk) != 0)
        return false;
    *left = disk.left;
    *least = watermark(g, &disk);
    return true;
}

uint64_t space_journal_max(const struct engine_options *o)
{
    if (o->disk == 0)
        return UINT64_MAX;

    return o->disk / 4;
}

uint64_t space_quarantine(const struct engine_options *o)
{
    uint64_t share = o->disk / 64;
    if (o->disk == 0)
        return 0;

    if (share > GUARD_FILE_BYTES)
        return GUARD_FILE_BYTES;
    if (share < 4096)
        return 4096;

    return share;
}

uint64_t space_taken(const struct engine *g)
{
    const struct space *s = &g->space;
    SHOAL_ASSERT(s->added_seen <= s->added); /* 2 */
    uint64_t taken = s->taken + s->added - s->added_seen;
    if (g->store != NULL) {
        uint64_t written = store_written(g->store);
        SHOAL_ASSERT(s->store_seen <= written); /* 2 */
        taken += written - s->store_seen;
    }
    SHOAL_ASSERT(g->journal == NULL || s->made_seen <= journal_made(g->journal)); /* 2 */
    if (g->journal != NULL)
        taken += (journal_made(g->journal) - s->made_seen) * g->segment_bytes;
    return taken;
}

/* Bytes that are kept free within the limit (3). */
static uint64_t kept(const struct engine *g)
{
    uint64_t small = COMPACT_MOST;
    if (g->space.small < COMPACT_MOST)
        small = g->space.small;
    return flush_image_bytes(g) + small + 2ull * g->segment_bytes +
           2 * space_quarantine(&g->options) + SUNDRIES;
}

static bool over(const struct engine *g, uint64_t more)
{
    return g->options.disk > 0 && space_taken(g) + kept(g) + more > g->options.disk;
}

bool space_pressed(const struct engine *g)
{
    return over(g, g->options.disk / 8);
}

/* ---- looking ---- */

struct look_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    char **folder;       /* owned, each; DIR, then parts */
    uint32_t count;
    uint64_t store_seen, made_seen, added_seen;
    uint64_t taken, small; /* result */
};

static void folders_free(char **folder, uint32_t count)
{
    for (uint32_t i = 0; folder != NULL && i < count; i++)
        free(folder[i]);
    free(folder);
}

static struct look_work *look_new(struct engine *g)
{
    struct look_work *l = calloc(1, sizeof *l);
    bool good = l != NULL && (l->folder = calloc(g->space.parts + 1, sizeof *l->folder)) != NULL;
    for (uint32_t i = 0; good && i <= g->space.parts; i++) {
        good = (l->folder[i] = strdup(i == 0 ? g->dir : g->space.part[i - 1])) != NULL;
        l->count += good;
    }
    if (!good) {
        if (l != NULL)
            folders_free(l->folder, l->count);
        free(l);
        return NULL;
    }
    SHOAL_ASSERT(l->count == g->space.parts + 1 && g->space.parts <= SPACE_PARTS);
    l->g = g;
    if (g->journal == NULL)
        l->made_seen = 0;
    else
        l->made_seen = journal_made(g->journal);

    l->added_seen = g->space.added;
    return l;
}

static void look_run(struct offload *w)
{
    struct look_work *l = container_of(w, struct look_work, work);
    struct store_space s = {0};
    if (l->g->store != NULL) {
        l->store_seen = store_written(l->g->store); /* before it asks for bytes in memory */
        s = store_space(l->g->store);
    }
    l->small = s.small;
    l->taken = space_walk(l->folder, l->count);
    if (l->taken != UINT64_MAX)
        l->taken += s.memory;
}

/* Forgets parts that no longer exist. */
static void forget_parts(struct engine *g)
{
    struct space *s = &g->space;
    uint32_t kept_parts = 0;
    for (uint32_t i = 0; i < s->parts; i++) {
        struct stat st;
        if (stat(s->part[i], &st) == 0)
            s->part[kept_parts++] = s->part[i];
        else
            free(s->part[i]);
    }
    if (kept_parts == s->parts)
        return;
    s->parts = kept_parts;
    parts_write(g);
}

static void judge(struct engine *g);

static void look_take(struct engine *g, const struct look_work *l)
{
    struct space *s = &g->space;
    SHOAL_ASSERT(s->added_seen <= l->added_seen &&
                 s->made_seen <= l->made_seen); /* one at a time */
    if (l->taken != UINT64_MAX) {
        s->taken = l->taken;
        s->small = l->small;
        s->store_seen = l->store_seen;
        s->made_seen = l->made_seen;
        s->added_seen = l->added_seen;
    }
    forget_parts(g);
    judge(g);
}

static void look_done(struct offload *w)
{
    struct look_work *l = container_of(w, struct look_work, work);
    struct engine *g = l->g;
    SHOAL_ASSERT(g->space.looking);
    g->space.looking = false;
    if (!w->cancelled)
        look_take(g, l);
    folders_free(l->folder, l->count);
    if (w->cancelled || g->broken)
        return;
    bool again = g->space.again;
    g->space.again = false;
    if (again)
        space_look(g);
    engine_flush_step(g);
}

void space_look(struct engine *g)
{
    struct space *s = &g->space;
    if (g->dir == NULL)
        return;
    if (s->looking) {
        s->again = true;
        return;
    }
    struct look_work *l = look_new(g);
    if (l == NULL)
        return; /* the figure stays too high until the next walk */
    s->looking = true;
    s->look_next_ns = env_now_ns(g->env) + LOOK_NS;
    engine_work(g, &l->work, look_run, look_done);
}

void space_open(struct engine *g)
{
    if (g->dir == NULL)
        return;
    SHOAL_ASSERT(!g->space.looking); /* 1 */
    g->space.part = calloc(SPACE_PARTS, sizeof *g->space.part);
    if (g->space.part != NULL)
        parts_read(g);
    struct look_work *l = look_new(g);
    if (l == NULL)
        return;
    look_run(&l->work);
    look_take(g, l);
    folders_free(l->folder, l->count);
    free(l);
}

void space_free(struct engine *g)
{
    SHOAL_ASSERT(!g->space.looking);
    folders_free(g->space.part, g->space.parts);
    g->space.part = NULL;
    g->space.parts = 0;
}

void space_add(struct engine *g, uint64_t bytes)
{
    g->space.added += bytes;
}

void space_note_part(struct engine *g, const char *dir)
{
    struct space *s = &g->space;
    struct stat own, other;
    char *copy = NULL;
    if (g->dir == NULL || s->part == NULL || stat(g->dir, &own) != 0 || stat(dir, &other) != 0 ||
        own.st_dev != other.st_dev)
        return;
    for (uint32_t i = 0; i < s->parts; i++)
        if (strcmp(s->part[i], dir) == 0)
            return;
    if (s->parts == SPACE_PARTS || (copy = strdup(dir)) == NULL) {
        log_warn("%s: %u parts of checkpoints are counted as `disk`; %s is not", g->dir, s->parts,
                 dir);
        return;
    }
    SHOAL_ASSERT(s->parts < SPACE_PARTS);
    s->part[s->parts++] = copy;
    parts_write(g);
    space_look(g);
}

/* ---- refusing pushes and reclaiming ---- */

bool space_reclaiming(const struct engine *g)
{
    return g->space.reclaim == RECLAIM_WRITE;
}

void space_reclaim_begin(struct engine *g)
{
    if (g->space.reclaim != RECLAIM_NONE || g->journal == NULL || g->committed == 0 ||
        !engine_back(g))
        return;
    g->space.reclaim = RECLAIM_WRITE;
    /* clean tablets too: they keep files alive whose other images are dead */
    flush_touch_images(g);
}

static void say(struct engine *g, enum space_short now)
{
    uint64_t left = 0, least = 0;
    bool known = space_left(g, &left, &least);
    char grown[SHARE_GROWN];
    share_grown(g, grown, sizeof grown);
    if (now == SPACE_ENOUGH)
        log_event(PUSHES_AGAIN, g->dir, "%s: there is room on the disk again; pushes are taken",
                  g->dir);
    else if (now == SPACE_BOUND)
        log_event(PUSHES_REFUSED, g->dir,
                  "%s: %" PRIu64 " bytes are taken of the `disk` budget of %" PRIu64
                  ", and %" PRIu64 " are kept for rewriting; pushes are refused%s",
                  g->dir, space_taken(g), g->options.disk, kept(g), grown);
    else if (known)
        log_event(PUSHES_REFUSED, g->dir,
                  "%s: %" PRIu64 " bytes are free on the disk, below the watermark of %" PRIu64
                  "; pushes are refused%s",
                  g->dir, left, least, grown);
}

static void judge(struct engine *g)
{
    struct space *s = &g->space;
    uint64_t left, least;
    enum space_short now = SPACE_ENOUGH;
    if (over(g, s->refusing == SPACE_BOUND ? g->options.disk / 32 : 0))
        now = SPACE_BOUND;
    if (now == SPACE_ENOUGH && space_left(g, &left, &least) && left < least)
        now = SPACE_DISK;
    if (now == s->refusing)
        return;
    say(g, now);
    if (now == SPACE_ENOUGH)
        share_stored(g);
    s->refusing = now;
    if (now == SPACE_BOUND)
        space_reclaim_begin(g);
    else if (s->reclaim == RECLAIM_WRITE)
        s->reclaim = RECLAIM_NONE;
}

void space_back(struct engine *g)
{
    SHOAL_ASSERT(engine_back(g));
    if (g->dir == NULL)
        return;
    judge(g);
    if (g->space.refusing == SPACE_BOUND)
        space_reclaim_begin(g);
}

static int refuse(const struct engine *g, struct err *e)
{
    uint64_t left = 0, least = 0;
    char grown[SHARE_GROWN];
    share_grown(g, grown, sizeof grown);
    if (g->space.refusing == SPACE_BOUND)
        return err_set(e, SHOAL_E_NO_SPACE,
                       "%s takes %" PRIu64 " of its %" PRIu64 " bytes of `disk`, and %" PRIu64
                       " are kept for rewriting rows; drop checkpoints that are on this disk, "
                       "raise `disk` or add a server%s",
                       g->dir, space_taken(g), g->options.disk, kept(g), grown);
    (void)space_left(g, &left, &least);
    return err_set(e, SHOAL_E_NO_SPACE,
                   "the disk under %s is nearly full: %" PRIu64
                   " bytes are free, the watermark is %" PRIu64
                   "; free some space or add a server%s",
                   g->dir, left, least, grown);
}

int space_check(struct engine *g, struct err *e)
{
    struct space *s = &g->space;
    uint64_t written = journal_written(g->journal);
    bool refused = s->refusing != SPACE_ENOUGH;
    if (refused || written >= s->journal_next || over(g, 0)) {
        s->journal_next = written + ASK_BYTES;
        judge(g);
    }
    if (s->refusing == SPACE_ENOUGH)
        return 0;
    if (refused && s->refusing == SPACE_BOUND && env_now_ns(g->env) >= s->look_next_ns)
        space_look(g); /* other processes may have freed some */
    engine_flush_step(g);
    return refuse(g, e);
}

int space_check_for(const struct engine *g, uint64_t bytes, const char *what, struct err *e)
{
    uint64_t left, least;
    if (g->dir == NULL)
        return 0;
    if (over(g, bytes))
        return err_set(
            e, SHOAL_E_NO_SPACE,
            "%s needs %" PRIu64 " bytes; %s takes %" PRIu64 " of its %" PRIu64
            " bytes of `disk`, and %" PRIu64
            " are kept for rewriting rows; drop checkpoints that are on this disk or raise `disk`",
            what, bytes, g->dir, space_taken(g), g->options.disk, kept(g));
    if (space_left(g, &left, &least) && (left < least || left - least < bytes))
        return err_set(e, SHOAL_E_NO_SPACE,
                       "%s needs %" PRIu64 " bytes; the disk under %s has %" PRIu64
                       " free, of which %" PRIu64 " are the watermark; free some space",
                       what, bytes, g->dir, left, least);
    return 0;
}

bool space_batch(struct engine *g, uint64_t bytes)
{
    struct space *s = &g->space;
    uint64_t left, least;
    bool bound = g->options.disk > 0 && space_taken(g) + bytes > g->options.disk;
    bool full = space_left(g, &left, &least) && left < least / 2 + bytes;
    if (s->stopped && !bound && !full)
        log_warn("%s: rows are written again", g->dir);
    if (!s->stopped && (bound || full))
        log_warn("%s: no room on the disk to write rows: the journal keeps them until there is",
                 g->dir);
    s->stopped = bound || full;
    if (bound && env_now_ns(g->env) >= s->look_next_ns)
        space_look(g);
    return !s->stopped;
}

struct tidy_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    int status;
    struct err err;
};

static void tidy_run(struct offload *w)
{
    struct tidy_work *t = container_of(w, struct tidy_work, work);
    t->status = flush_tidy(t->g->store, &t->err);
}

static void tidy_done(struct offload *w)
{
    struct tidy_work *t = container_of(w, struct tidy_work, work);
    struct engine *g = t->g;
    SHOAL_ASSERT(g->flush.busy && g->space.reclaim == RECLAIM_TIDY);
    g->flush.busy = false;
    g->space.reclaim = RECLAIM_NONE;
    if (w->cancelled)
        return;
    if (t->status != 0) {
        engine_fail(g, &t->err);
        return;
    }
    space_look(g);
    engine_flush_step(g);
}

void space_reclaim(struct engine *g)
{
    if (g->space.reclaim != RECLAIM_WRITE || g->flush.busy || g->cut_busy || g->holding ||
        g->broken)
        return;
    SHOAL_ASSERT(engine_back(g) && g->committed > 0);
    struct tidy_work *t = calloc(1, sizeof *t);
    if (t == NULL)
        return; /* the next step retries */
    flush_trim(g);
    journal_forget(g->journal);
    g->space.reclaim = RECLAIM_TIDY;
    g->flush.busy = true; /* only one writer may use the store at a time */
    t->g = g;
    engine_work(g, &t->work, tidy_run, tidy_done);
}
