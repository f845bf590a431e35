/* stored.c: tablets and control state as values of the row store.
 *
 * 1. A tablet's value holds everything that its pushes change: rows, undo and marks, all complete
 *    up to flushed_seq. [assert: stored_tablet_write]
 *    [test: killed_shard_comes_back_from_rows_and_journal, undo_survives]
 * 2. No byte is used before its checksum was compared. [test: damaged_image_is_named,
 * fuzz_stored] */
#include "embedding/store/stored.h"

#include "embedding/journal/record_schema.h"
#include "embedding/rows/image.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TABLET_MAGIC 0x314254454c424154ull
/* 0.2.0 wrote this when no schema had changed and no run was cleared: it lacks the fields for
 * them */
#define CONTROL_MAGIC_3 0x334c5254434c4853ull
/* the same without terms: written while no term was begun */
#define CONTROL_MAGIC_5 0x354c5254434c4853ull
/* the same, which was last dropped for all tables at once */
#define CONTROL_MAGIC_6 0x364c5254434c4853ull
/* the same, of tables 0 to 63 */
#define CONTROL_MAGIC_7 0x374c5254434c4853ull
#define CONTROL_MAGIC 0x384c5254434c4853ull
#define CONTROL_VERSION 8u
#define CONTROL_OLDEST 3u
#define LOAD_MAGIC 0x3244414f4c4c4853ull
#define LOAD_MAGIC_NEAR 0x3144414f4c4c4853ull /* magic of loads of tables 0 to 63 */

struct tablet_head {
    uint64_t magic;
    uint64_t checksum; /* over the rest of the head, and the column */
    uint64_t flushed_seq;
    uint32_t table, tablet;
    uint32_t column_bytes, reserved;
};
_Static_assert(sizeof(struct tablet_head) == 40, "tablet_head is a disk format");

struct control_head {
    uint64_t magic;
    uint64_t checksum; /* over all that follows */
    uint64_t sequence;
    uint32_t tables, runs;
    uint64_t floor;
    uint64_t newest;           /* runs.newest */
    uint64_t cleared, barrier; /* values of tables that are not listed; not in CONTROL_MAGIC_3 */
};
#define CONTROL_HEAD_3 offsetof(struct control_head, cleared)
_Static_assert(sizeof(struct control_head) == 64, "control_head is a disk format");

/* in `mode`: a dropped run; instead of lanes a u64, run_past.seen, follows */
#define CONTROL_PAST (1u << 31)

struct control_run { /* a run of version 8 */
    uint64_t id;
    struct table_set tables;
    uint32_t lanes, mode;
};
struct control_run_7 { /* a run of the versions up to 7 */
    uint64_t id, tables;
    uint32_t lanes, mode;
};
struct control_lane {
    uint64_t generation;
    int64_t offset;
    uint64_t live;
};
_Static_assert(sizeof(struct control_run) == 48 && sizeof(struct control_run_7) == 24 &&
                   sizeof(struct control_lane) == 24,
               "control values are a disk format");

static void put_be(char *out, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (char)(v >> 8 * (bytes - 1 - i));
}

static uint64_t get_be(const char *in, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | (unsigned char)in[i];
    return v;
}

void stored_tablet_key(uint32_t table, uint32_t tablet, struct store_item *item)
{
    SHOAL_ASSERT(table <= LIMIT_TABLES && tablet <= LIMIT_TABLETS); /* or the end of a range */
    item->key[0] = 'i';
    put_be(item->key + 1, table, 4);
    put_be(item->key + 5, tablet, 4);
    item->key_bytes = 9;
}

/* 1 + 1 + 2 + 3 + 8 = 15 bytes: LIMIT_TABLES and LIMIT_TABLETS fit, and 16 million restores use up
 * the epochs. */
_Static_assert(LIMIT_TABLES <= 256 && LIMIT_TABLETS <= 65536,
               "a cold row's key has a byte for its table and two for its tablet");
#define ROW_KEY_BYTES 15u

static void row_key(uint32_t table, uint32_t tablet, uint32_t epoch, uint64_t mixed,
                    struct store_item *item)
{
    SHOAL_ASSERT(table < LIMIT_TABLES && tablet < LIMIT_TABLETS);
    item->key[0] = 'r';
    put_be(item->key + 1, table, 1);
    put_be(item->key + 2, tablet, 2);
    put_be(item->key + 4, epoch & STORED_EPOCH_MAX, 3);
    put_be(item->key + 7, mixed, 8);
    item->key_bytes = ROW_KEY_BYTES;
}

/* Rows have the order of the tablet's index, in which they leave and are read: a memtable takes the
 * key after its last one at half the price of any other key. */
void stored_row_key(uint32_t table, uint32_t tablet, uint32_t epoch, uint64_t key,
                    struct store_item *item)
{
    row_key(table, tablet, epoch, key_mix(key), item);
}

void stored_table_rows(uint32_t table, struct store_item *from, struct store_item *below)
{
    row_key(table, 0, 0, 0, from);
    /* the last table's number fills its byte, so the end carries into the byte before it */
    put_be(below->key, (uint64_t)'r' << 8 | table, 2);
    put_be(below->key, get_be(below->key, 2) + 1, 2);
    below->key_bytes = 2;
    SHOAL_ASSERT(store_item_below(from, below));
}

void stored_row_range(uint32_t table, uint32_t tablet, uint32_t epoch, struct store_item *from,
                      struct store_item *below)
{
    row_key(table, tablet, epoch, 0, from);
    row_key(table, tablet, epoch, UINT64_MAX, below);
    below->key[below->key_bytes++] = 0; /* the smallest key above the last one */
    SHOAL_ASSERT(below->key_bytes <= sizeof below->key && store_item_below(from, below));
}

bool stored_is_row(const void *key, size_t key_bytes, uint32_t *table, uint32_t *tablet,
                   uint32_t *epoch, uint64_t *row)
{
    const char *at = key;
    if (key_bytes != ROW_KEY_BYTES || at[0] != 'r')
        return false;
    *table = (uint32_t)get_be(at + 1, 1);
    *tablet = (uint32_t)get_be(at + 2, 2);
    *epoch = (uint32_t)get_be(at + 4, 3);
    *row = key_unmix(get_be(at + 7, 8));
    return true;
}

void stored_control_key(struct store_item *item)
{
    item->key[0] = 'c';
    item->key_bytes = 1;
}

bool stored_is_control(const void *key, size_t key_bytes)
{
    return key_bytes == 1 && *(const char *)key == 'c';
}

bool stored_is_tablet(const void *key, size_t key_bytes, uint32_t *table, uint32_t *tablet)
{
    const char *at = key;
    if (key_bytes != 9 || at[0] != 'i')
        return false;
    *table = (uint32_t)get_be(at + 1, 4);
    *tablet = (uint32_t)get_be(at + 5, 4);
    return true;
}

static uint64_t head_checksum(const struct tablet_head *h, const void *column)
{
    size_t from = offsetof(struct tablet_head, flushed_seq);
    return hash_bytes(column, h->column_bytes,
                      hash_bytes((const char *)h + from, sizeof *h - from, h->magic));
}

size_t stored_tablet_bytes(const struct table *t, const struct runs *r, uint32_t tablet)
{
    uint32_t table = table_schema_of(t)->table;
    return sizeof(struct tablet_head) + runs_column_bytes(r, table, tablet) +
           table_image_bytes(t, tablet);
}

void stored_tablet_write(const struct table *t, const struct runs *r, uint32_t tablet,
                         uint64_t flushed_seq, void *out)
{
    uint32_t table = table_schema_of(t)->table;
    char *column = (char *)out + sizeof(struct tablet_head);
    SHOAL_ASSERT(tablet >> table_schema_of(t)->tablet_bits == 0);
    struct tablet_head h = {.magic = TABLET_MAGIC,
                            .flushed_seq = flushed_seq,
                            .table = table,
                            .tablet = tablet,
                            .column_bytes = (uint32_t)runs_column_bytes(r, table, tablet)};
    runs_column_write(r, table, tablet, column);
    h.checksum = head_checksum(&h, column);
    memcpy(out, &h, sizeof h);
    table_image_write(t, tablet, column + h.column_bytes);
    /* the whole column: one mark too few or too many would lose a batch or apply it twice */
    SHOAL_ASSERT(h.column_bytes == runs_column_bytes(r, table, tablet)); /* 1 */
}

int stored_tablet_head(const void *value, size_t bytes, const struct table_schema *s,
                       uint32_t tablet, uint64_t *flushed_seq, struct err *e)
{
    struct tablet_head h;
    bool good = bytes >= sizeof h;
    if (good) {
        memcpy(&h, value, sizeof h);
        good = h.magic == TABLET_MAGIC && h.table == s->table && h.tablet == tablet &&
               h.column_bytes <= bytes - sizeof h &&
               h.checksum == head_checksum(&h, (const char *)value + sizeof h);
    }
    if (!good)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the stored tablet %u of table %s is damaged (%zu bytes); restore a cut",
                       tablet, s->name, bytes);
    *flushed_seq = h.flushed_seq;
    return 0;
}

int stored_tablet_check(const void *value, size_t bytes, const struct table_schema *s,
                        uint32_t tablet, uint64_t *flushed_seq, struct err *e)
{
    struct tablet_head h;
    int rc = stored_tablet_head(value, bytes, s, tablet, flushed_seq, e);
    if (rc != 0)
        return rc;
    memcpy(&h, value, sizeof h);
    const char *image = (const char *)value + sizeof h + h.column_bytes;

    if (image_whole(image, bytes - sizeof h - h.column_bytes))
        return 0;

    return err_set(e, SHOAL_E_CHECKSUM, "image of table %s tablet %u: checksum does not match",
                   s->name, tablet);
}

int stored_tablet_read(const void *value, size_t bytes, struct table *t, struct runs *r,
                       uint32_t tablet, struct err *e)
{
    const struct table_schema *s = table_schema_of(t);
    uint64_t flushed_seq;
    SHOAL_ASSERT(tablet >> s->tablet_bits == 0);
    int rc = stored_tablet_head(value, bytes, s, tablet, &flushed_seq, e);
    if (rc != 0)
        return rc;
    struct tablet_head h;
    memcpy(&h, value, sizeof h);
    const char *column = (const char *)value + sizeof h;
    rc = runs_column_read(r, s->table, 1u << s->tablet_bits, tablet, flushed_seq, column,
                          h.column_bytes);
    if (rc != 0)
        return err_set(e, rc, "the stored marks of tablet %u of table %s cannot be taken in: %s",
                       tablet, s->name, err_text(rc));
    rc = table_image_read(t, tablet, column + h.column_bytes, bytes - sizeof h - h.column_bytes, e);
    if (rc != 0)
        return err_wrap(e, rc, "stored tablet %u of table %s", tablet, s->name);
    return 0;
}

/* ---- a load ---- */

void stored_load_key(struct table_set tables, struct store_item *item)
{
    item->key[0] = 'b';
    item->key_bytes = 1;
    if (table_set_any(tables))
        item->key[item->key_bytes++] = (char)table_set_lowest(tables);
}

bool stored_is_load(const void *key, size_t key_bytes)
{
    const uint8_t *at = key;
    if (key_bytes == 0 || at[0] != 'b')
        return false;
    return key_bytes == 1 || key_bytes == 2; /* a byte is a table's number */
}

struct load {
    uint64_t magic, checksum; /* checksum: of all that follows */
    uint64_t run;
    struct table_set tables;
    uint64_t under_way; /* 1 or 0 */
};
struct load_near { /* the same of tables 0 to 63 */
    uint64_t magic, checksum;
    uint64_t run, tables, under_way;
};
_Static_assert(sizeof(struct load) == STORED_LOAD_BYTES && sizeof(struct load_near) == 40,
               "load is a disk format");

static uint64_t load_checksum(const void *value, size_t bytes, uint64_t magic)
{
    size_t from = offsetof(struct load, run);
    return hash_bytes((const char *)value + from, bytes - from, magic);
}

void stored_load_write(const struct stored_load *l, void *value, struct store_item *item)
{
    struct load far = {
        .magic = LOAD_MAGIC, .run = l->run, .tables = l->tables, .under_way = l->under_way};
    struct load_near near = {.magic = LOAD_MAGIC_NEAR,
                             .run = l->run,
                             .tables = l->tables.word[0],
                             .under_way = l->under_way};
    stored_load_key(l->tables, item);
    item->value = value;
    if (table_set_is_word(l->tables)) {
        near.checksum = load_checksum(&near, sizeof near, LOAD_MAGIC_NEAR);
        memcpy(value, &near, item->value_bytes = sizeof near);
        return;
    }
    far.checksum = load_checksum(&far, sizeof far, LOAD_MAGIC);
    memcpy(value, &far, item->value_bytes = sizeof far);
}

/* Takes a value in either form. False: it cannot be one. */
static bool load_take(const void *value, size_t bytes, struct load *out)
{
    struct load_near near;
    if (bytes == sizeof *out) {
        memcpy(out, value, sizeof *out);
        return out->magic == LOAD_MAGIC && out->checksum == load_checksum(out, bytes, LOAD_MAGIC);
    }
    if (bytes != sizeof near)
        return false;
    memcpy(&near, value, sizeof near);
    *out = (struct load){
        .run = near.run, .tables = table_set_word(near.tables), .under_way = near.under_way};
    return near.magic == LOAD_MAGIC_NEAR &&
           near.checksum == load_checksum(&near, bytes, LOAD_MAGIC_NEAR);
}

int stored_load_read(const void *value, size_t bytes, struct stored_load *out, struct err *e)
{
    struct load l = {0};
    if (!load_take(value, bytes, &l) || l.under_way > 1)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the stored word about a load is damaged (%zu bytes); restore a cut", bytes);
    *out = (struct stored_load){l.run, l.tables, l.under_way == 1};
    return 0;
}

/* ---- control state: head; schemas (u64 bytes, record_schema.h, struct table_past, and from
 * version 5 on u64 runs.of[].newest); runs with their lanes; dropped runs; from version 7 on u64
 * places, and a struct control_place for each number whose tables were dropped at another time than
 * those of the last one; from version 6 on, if a term was begun, struct control_terms, and its
 * terms. Version 8 has tables of number 64 and more, so whole sets of tables in its runs ---- */

_Static_assert(sizeof(struct table_past) == 16, "table_past is a disk format");

struct control_terms {
    uint64_t dropped, count;
};
_Static_assert(sizeof(struct control_terms) == 16 && sizeof(struct term_begin) == 16,
               "the terms of a control state are a disk format");

struct control_place {
    uint64_t table;
    struct run_place is;
};
_Static_assert(sizeof(struct control_place) == 32, "control_place is a disk format");

/* True when the tables of this number were dropped at another time than those of the last one. */
static bool apart(const struct runs *r, uint32_t table)
{
    const struct run_place *is = &r->of[table], *last = &r->of[LIMIT_TABLES - 1];
    return is->cleared != last->cleared || is->barrier != last->barrier;
}

static uint64_t places_of(const struct runs *r)
{
    uint64_t places = 0;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        places += apart(r, t);
    return places;
}

/* True when a table of number 64 or more is in it. */
static bool control_far(struct table *const table[LIMIT_TABLES], const struct runs *r)
{
    bool far = false;
    for (uint32_t t = 64; t < LIMIT_TABLES; t++)
        far |= table[t] != NULL || apart(r, t);
    for (uint32_t i = 0; i < r->count; i++)
        far |= !table_set_is_word(r->run[i]->tables);
    for (uint32_t i = 0; i < r->past_count; i++)
        far |= !table_set_is_word(r->past[i].tables);
    return far;
}

/* The oldest form that has it all. */
static uint64_t control_magic(struct table *const table[LIMIT_TABLES], const struct runs *r,
                              const struct terms *terms)
{
    if (control_far(table, r))
        return CONTROL_MAGIC;
    if (places_of(r) > 0)
        return CONTROL_MAGIC_7;
    return terms->count > 0 ? CONTROL_MAGIC_6 : CONTROL_MAGIC_5;
}

static bool has_places(uint64_t magic)
{
    return magic == CONTROL_MAGIC || magic == CONTROL_MAGIC_7;
}

static size_t run_bytes(uint64_t magic)
{
    return magic == CONTROL_MAGIC ? sizeof(struct control_run) : sizeof(struct control_run_7);
}

static size_t control_bytes(uint64_t magic, struct table *const table[LIMIT_TABLES],
                            const struct runs *r, const struct terms *terms)
{
    size_t bytes = sizeof(struct control_head);
    if (has_places(magic))
        bytes += sizeof(uint64_t) + places_of(r) * sizeof(struct control_place);
    if (terms->count > 0)
        bytes += sizeof(struct control_terms) + terms->count * sizeof(struct term_begin);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (table[i] != NULL)
            bytes += sizeof(uint64_t) + record_schema_bytes(table_schema_of(table[i])) +
                     sizeof(struct table_past) + sizeof r->of[i].newest;
    for (uint32_t i = 0; i < r->count; i++)
        bytes +=
            run_bytes(magic) + (r->run[i]->ghost ? sizeof r->run[i]->seen
                                                 : r->run[i]->lanes * sizeof(struct control_lane));
    for (uint32_t i = 0; i < r->past_count; i++)
        if (runs_find(r, r->past[i].id) == NULL)
            bytes += run_bytes(magic) + sizeof r->past[i].seen;
    return bytes;
}

static char *put(char *at, const void *from, size_t bytes)
{
    memcpy(at, from, bytes);
    return at + bytes;
}

static char *put_run(char *at, uint64_t magic, const struct control_run *r)
{
    if (magic == CONTROL_MAGIC)
        return put(at, r, sizeof *r);
    const struct control_run_7 near = {r->id, r->tables.word[0], r->lanes, r->mode};
    return put(at, &near, sizeof near);
}

/* seen: run_past.seen */
static char *put_past(char *at, uint64_t magic, struct control_run r, uint64_t seen)
{
    SHOAL_ASSERT(r.lanes > 0 && r.lanes <= LIMIT_LANES && run_mode_known(r.mode));
    r.mode |= CONTROL_PAST;
    at = put_run(at, magic, &r);
    return put(at, &seen, sizeof seen);
}

static char *put_places(char *at, uint64_t magic, const struct runs *r)
{
    if (!has_places(magic))
        return at;
    const uint64_t places = places_of(r);
    at = put(at, &places, sizeof places);
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        if (apart(r, t))
            at = put(at, &(struct control_place){t, r->of[t]}, sizeof(struct control_place));
    return at;
}

int stored_control_write(struct table *const table[LIMIT_TABLES], const struct runs *r,
                         struct stored_as_of as_of, void **out, size_t *bytes)
{
    SHOAL_ASSERT(as_of.floor <= as_of.sequence); /* a reader would refuse it otherwise */
    const struct terms *terms = &as_of.terms;
    const uint64_t magic = control_magic(table, r, terms);
    *bytes = control_bytes(magic, table, r, terms);
    char *value = malloc(*bytes), *at = value;
    if (value == NULL)
        return SHOAL_E_NOMEM;
    struct control_head h = {.magic = magic,
                             .sequence = as_of.sequence,
                             .floor = as_of.floor,
                             .newest = r->newest,
                             .cleared = r->of[LIMIT_TABLES - 1].cleared,
                             .barrier = r->of[LIMIT_TABLES - 1].barrier};
    SHOAL_ASSERT(r->barrier <= as_of.sequence);
    at += sizeof h;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (table[i] != NULL) {
            const struct table_schema *s = table_schema_of(table[i]);
            uint64_t schema_bytes = record_schema_bytes(s);
            SHOAL_ASSERT(s->table == i && at + schema_bytes < value + *bytes);
            at = put(at, &schema_bytes, sizeof schema_bytes);
            record_schema_write(s, at);
            at += schema_bytes;
            at = put(at, table_past(table[i]), sizeof(struct table_past));
            at = put(at, &r->of[i].newest, sizeof r->of[i].newest);
            h.tables++;
        }
    for (uint32_t i = 0; i < r->count; i++) {
        const struct run *run = r->run[i];
        h.runs++;
        if (run->ghost) {
            at = put_past(at, magic,
                          (struct control_run){run->id, run->tables, run->lanes, run->mode},
                          run->seen);
            continue;
        }
        at = put_run(at, magic, &(struct control_run){run->id, run->tables, run->lanes, run->mode});
        for (uint32_t lane = 0; lane < run->lanes; lane++) {
            const struct run_lane *l = &run->lane[lane];
            at = put(at, &(struct control_lane){l->generation, l->offset, l->live},
                     sizeof(struct control_lane));
        }
    }
    for (uint32_t i = 0; i < r->past_count; i++) {
        const struct run_past *p = &r->past[i];
        if (runs_find(r, p->id) != NULL)
            continue;
        at =
            put_past(at, magic, (struct control_run){p->id, p->tables, p->lanes, p->mode}, p->seen);
        h.runs++;
    }
    at = put_places(at, magic, r);
    if (terms->count > 0) {
        at = put(at, &(struct control_terms){terms->dropped, terms->count},
                 sizeof(struct control_terms));
        at = put(at, terms->begin, terms->count * sizeof terms->begin[0]);
    }
    SHOAL_ASSERT((size_t)(at - value) == *bytes);
    memcpy(value, &h, sizeof h);
    size_t from = offsetof(struct control_head, sequence);
    h.checksum = hash_bytes(value + from, *bytes - from, h.magic);
    memcpy(value, &h, sizeof h);
    *out = value;
    return 0;
}

struct reader {
    const char *at, *end;
};

static bool get(struct reader *r, void *out, size_t bytes)
{
    SHOAL_ASSERT(r->at <= r->end);
    if ((size_t)(r->end - r->at) < bytes)
        return false;
    memcpy(out, r->at, bytes);
    r->at += bytes;
    return true;
}

/* The version of a control state whose checksum is right for its magic: the last byte of the magic
 * is the version. */
static uint32_t control_version(const void *value, size_t bytes)
{
    struct control_head h = {0};
    size_t from = offsetof(struct control_head, sequence);
    if (bytes < from)
        return 0;
    memcpy(&h, value, from);
    bool ours = (h.magic ^ CONTROL_MAGIC) << 8 == 0;

    if (ours && h.checksum == hash_bytes((const char *)value + from, bytes - from, h.magic))
        return (uint32_t)(h.magic >> 56) - '0';

    return 0;
}

static bool read_head(struct reader *in, struct control_head *h)
{
    *h = (struct control_head){0};
    if (!get(in, h, CONTROL_HEAD_3))
        return false;
    return h->magic == CONTROL_MAGIC_3 || get(in, &h->cleared, sizeof *h - CONTROL_HEAD_3);
}

static int read_lanes(struct reader *in, struct run *run, uint32_t lanes)
{
    for (uint32_t lane = 0; lane < lanes; lane++) {
        struct control_lane l;
        if (!get(in, &l, sizeof l))
            return SHOAL_E_CORRUPT;
        SHOAL_ASSERT(run == NULL || lane < run->lanes);
        if (run != NULL)
            run->lane[lane] = (struct run_lane){
                .generation = l.generation, .offset = l.offset, .live = l.live != 0};
    }
    return 0;
}

/* Reads the head of a run in the form of the version. */
static bool get_run(struct reader *in, uint32_t version, struct control_run *c)
{
    struct control_run_7 near;
    if (version >= 8)
        return get(in, c, sizeof *c);
    if (!get(in, &near, sizeof near))
        return false;
    *c = (struct control_run){near.id, table_set_word(near.tables), near.lanes, near.mode};
    return true;
}

static int read_run(struct reader *in, uint32_t version, struct runs *r)
{
    struct control_run c;
    struct run *run = NULL;
    uint64_t seen = 0;
    if (!get_run(in, version, &c))
        return SHOAL_E_CORRUPT;
    bool past = (c.mode & CONTROL_PAST) != 0;
    c.mode &= ~CONTROL_PAST;
    if (c.lanes == 0 || c.lanes > LIMIT_LANES || !run_mode_known(c.mode) ||
        (past && !get(in, &seen, sizeof seen)))
        return SHOAL_E_CORRUPT;
    if (r != NULL && runs_find(r, c.id) != NULL)
        return SHOAL_E_CORRUPT;
    if (r != NULL && runs_add(r, c.id, c.tables, c.lanes, c.mode, &run) != 0)
        return SHOAL_E_NOMEM;
    if (!past)
        return read_lanes(in, run, c.lanes);
    if (run != NULL) {
        run->ghost = true;
        run->seen = seen;
    }
    return 0;
}

/* Reads what became of the tables of some numbers into place[]. */
static int read_places(struct reader *in, uint32_t version, uint64_t sequence,
                       struct run_place *place)
{
    uint64_t places;
    struct control_place p;
    if (!get(in, &places, sizeof places) || (places == 0 && version < 8) || places > LIMIT_TABLES)
        return SHOAL_E_CORRUPT;
    for (uint64_t i = 0; i < places; i++) {
        if (!get(in, &p, sizeof p) || p.table >= LIMIT_TABLES || p.is.barrier > sequence)
            return SHOAL_E_CORRUPT;
        place[p.table] = p.is;
    }
    return 0;
}

/* Takes what became of the tables, but nothing older than it has. */
static void places_take(struct runs *r, const struct run_place *place)
{
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        struct run_place *to = &r->of[t];
        if (to->newest < place[t].newest)
            to->newest = place[t].newest;
        if (to->cleared < place[t].cleared) /* its barrier is 0 if no record was there yet */
            to->cleared = place[t].cleared;
        if (to->barrier < place[t].barrier)
            to->barrier = place[t].barrier;
        if (r->barrier < to->barrier)
            r->barrier = to->barrier;
    }
}

static int read_terms(struct reader *in, uint64_t sequence, struct terms *t)
{
    struct control_terms c;
    struct term_begin b;
    if (!get(in, &c, sizeof c) || c.count == 0 || c.count > TERMS_KEPT)
        return SHOAL_E_CORRUPT;
    t->dropped = c.dropped;
    for (uint64_t last = 0; t->count < c.count; last = b.sequence) {
        if (!get(in, &b, sizeof b) || b.term <= term_last(t) || b.term <= c.dropped ||
            b.sequence <= last || b.sequence > sequence)
            return SHOAL_E_CORRUPT;
        term_add(t, b.term, b.sequence);
    }
    return 0;
}

int stored_control_read(const void *value, size_t bytes, struct runs *r, struct stored_as_of *as_of,
                        stored_schema_visit visit, void *context, struct err *e)
{
    static const char damaged[] =
        "the stored control state (tables and runs) is damaged; restore a cut";
    struct reader in = {value, (const char *)value + bytes};
    struct control_head h;
    uint32_t version = control_version(value, bytes);
    if (version > CONTROL_VERSION || (version != 0 && version < CONTROL_OLDEST))
        return err_set(e, SHOAL_E_VERSION,
                       "the stored control state (tables and runs) has version %u, this Shoal "
                       "reads %u to %u: it was written by %s; start that one",
                       version, CONTROL_OLDEST, CONTROL_VERSION,
                       version > CONTROL_VERSION ? "a later one" : "a release before 0.2.0");
    if (version == 0 || !read_head(&in, &h) || h.floor > h.sequence || h.barrier > h.sequence)
        return err_set(e, SHOAL_E_CORRUPT, damaged);
    struct run_place place[LIMIT_TABLES];
    uint64_t before = h.newest;
    if (version >= 5) /* a table that is not here went before the job that is `cleared` began */
        before = h.cleared > 0 ? h.cleared - 1 : 0;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        place[t] = (struct run_place){before, h.cleared, h.barrier};
    for (uint32_t i = 0; i < h.tables; i++) {
        uint64_t schema_bytes;
        struct table_schema s;
        struct table_past past = {0};
        if (!get(&in, &schema_bytes, sizeof schema_bytes) ||
            schema_bytes > (uint64_t)(in.end - in.at))
            return err_set(e, SHOAL_E_CORRUPT, damaged);
        int rc = record_schema_read(in.at, schema_bytes, &s, e);
        in.at += schema_bytes;
        if (rc == 0 && version >= 4 &&
            (!get(&in, &past, sizeof past) || past.sequence > h.sequence))
            rc = err_set(e, SHOAL_E_CORRUPT, damaged);
        if (rc == 0 && version >= 5 && !get(&in, &place[s.table].newest, sizeof before))
            rc = err_set(e, SHOAL_E_CORRUPT, damaged);
        if (rc == 0)
            rc = visit(context, &s, &past, e);
        if (rc != 0)
            return rc;
    }
    for (uint32_t i = 0; i < h.runs; i++) {
        int rc = read_run(&in, version, r);
        if (rc != 0)
            return err_set(e, rc, damaged);
    }
    if (r != NULL && r->newest < h.newest)
        r->newest = h.newest;
    if (version >= 7 && read_places(&in, version, h.sequence, place) != 0)
        return err_set(e, SHOAL_E_CORRUPT, damaged);
    if (r != NULL)
        places_take(r, place);
    *as_of = (struct stored_as_of){h.sequence, h.floor, {0}};
    bool terms = version == 6 || (version > 6 && in.at != in.end);
    if (terms && read_terms(&in, h.sequence, &as_of->terms) != 0)
        return err_set(e, SHOAL_E_CORRUPT, damaged);

    if (in.at == in.end)
        return 0;

    return err_set(e, SHOAL_E_CORRUPT, damaged);
}
