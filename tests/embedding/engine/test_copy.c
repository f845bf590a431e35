/* test_copy.c: an engine that begins anew with a copy of another one, with and without a folder. */
#include "embedding/copy.h"
#include "embedding/engine/copy_part.h"
#include "embedding/engine/engine_state.h"
#include "embedding/follow.h"
#include "embedding/rows/image.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "tests/lib/disk.h"
#include "tests/lib/embedding_thin.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[LIMIT_PATH], dir[LIMIT_PATH], other[LIMIT_PATH];
static struct rig leader, copy;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    rig_dir(root);
    snprintf(dir, sizeof dir, "%.900s/leader", root);
    snprintf(other, sizeof other, "%.900s/copy", root);
}

static void teardown(void)
{
    rig_remove_dir(root);
}

/* ---- the state of an engine, as one number ---- */

/* A sum over the words of an image: rows, admission, names and undo. Their order, which is that of
 * the index, differs after rows were erased. */
static uint64_t words(const char *image, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t at = sizeof(struct image_header); at + 4 <= bytes - sizeof(uint64_t); at += 4) {
        uint32_t word;
        memcpy(&word, image + at, sizeof word);
        sum += rng_mix(word);
    }
    return sum;
}

/* Covers rows, marks, and without rows in the store all else of a tablet. */
static uint64_t tablet_state(struct rig *s, uint32_t table, uint32_t tablet, uint64_t sum)
{
    const struct table *t = engine_table(s->g, table);
    size_t bytes = stored_tablet_bytes(t, &s->g->runs, tablet),
           column = bytes - table_image_bytes(t, tablet);
    char *value = malloc(bytes);
    uint64_t of[3] = {0};
    struct err e = {0};
    const struct table *whole = engine_whole(s->g, table, tablet, &e);
    ck_assert_msg(whole != NULL, "%s", e.text);
    ck_assert_int_eq(table_digest(whole, tablet, &of[0]), 0);
    stored_tablet_write(t, &s->g->runs, tablet, 1, value);
    of[1] = hash_bytes(value, column, 0);
    if (s->g->options.memory == 0)
        of[2] = words(value + column, bytes - column);
    free(value);
    return hash_bytes(of, sizeof of, sum);
}

static uint64_t state_of(struct rig *s)
{
    struct engine *g = s->g;
    struct table *list[LIMIT_TABLES];
    void *value;
    size_t bytes;
    uint64_t sum = g->sequence;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        list[t] = g->table[t].table;
        for (uint32_t k = 0; list[t] != NULL && k < g->table[t].scope.tablets; k++)
            sum = tablet_state(s, t, k, sum);
    }
    ck_assert_int_eq(stored_control_write(list, &g->runs,
                                          (struct stored_as_of){g->sequence, 0, g->terms}, &value,
                                          &bytes),
                     0);
    sum = hash_bytes(value, bytes, sum);
    free(value);
    return sum;
}

/* ---- the parts of a copy ---- */

#define PARTS 4096u

struct parts {
    uint32_t count;
    void *part[PARTS];
    size_t bytes[PARTS];
    uint64_t number, sequence;
    char next[ENGINE_COPY_POSITION];
    size_t next_bytes;
    int calls, status;
    char text[ERR_TEXT_MAX];
};

static struct parts parts;

static void begun(void *context, int status, const char *text, uint64_t number, uint64_t sequence,
                  uint64_t bytes)
{
    struct parts *p = context;
    p->calls++;
    p->status = status;
    snprintf(p->text, sizeof p->text, "%s", text);
    p->number = number;
    p->sequence = sequence;
    ck_assert(status != 0 || bytes > 0);
}

static void came(void *context, int status, const char *text, struct msg *m, const void *part,
                 size_t bytes, const void *next, size_t next_bytes)
{
    struct parts *p = context;
    ck_assert((m != NULL) == (status == 0));
    p->calls++;
    p->status = status;
    snprintf(p->text, sizeof p->text, "%s", text);
    if (status != 0)
        return;
    ck_assert_uint_lt(p->count, PARTS);
    p->part[p->count] = malloc(bytes);
    memcpy(p->part[p->count], part, bytes);
    p->bytes[p->count++] = bytes;
    p->next_bytes = next_bytes;
    if (next_bytes > 0)
        memcpy(p->next, next, next_bytes);
}

static void parts_free(struct parts *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        free(p->part[i]);
    *p = (struct parts){0};
}

static void copy_begin(struct rig *s, struct parts *p)
{
    struct err e = {0};
    *p = (struct parts){.status = 1};
    int rc = engine_copy_begin(s->g, begun, p, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    for (int i = 0; i < 200 && p->status == 1; i++) {
        engine_flush_step(s->g);
        embedding_env_run(&s->env);
    }
    ck_assert_msg(p->status == 0, "%s", p->text);
    ck_assert_int_eq(p->calls, 1);
}

static int part_read(struct rig *s, struct parts *p, size_t most, struct err *e)
{
    p->calls = 0;
    int rc = engine_copy_read(s->g, p->number, p->next, p->next_bytes, most, came, p, e);
    if (rc != 0)
        return rc;
    embedding_env_run(&s->env);
    ck_assert_int_eq(p->calls, 1);
    return p->status;
}

static void part_must(struct rig *s, struct parts *p, size_t most)
{
    struct err e = {0};
    int rc = part_read(s, p, most, &e);
    ck_assert_msg(rc == 0, "%s%s", e.text, p->text);
}

static void parts_read(struct rig *s, struct parts *p, size_t most)
{
    do
        part_must(s, p, most);
    while (p->next_bytes > 0);
    engine_copy_end(s->g, p->number);
    embedding_env_run(&s->env);
}

static void take(struct engine_seed *seed, const struct parts *p, uint32_t from, uint32_t below)
{
    for (uint32_t i = from; i < below; i++) {
        struct err e = {0};
        int rc = engine_seed_take(seed, p->part[i], p->bytes[i], &e);
        ck_assert_msg(rc == 0, "part %u: %s", i, e.text);
    }
}

static struct engine_seed *seed_of(const struct engine_options *o)
{
    struct engine_seed *seed;
    struct err e = {0};
    ck_assert_msg(engine_seed_begin(o, &seed, &e) == 0, "%s", e.text);
    return seed;
}

/* Opens `copy` with the options of the leader, in `where`. */
static int seed_open(struct engine_seed *seed, const char *where, struct err *e)
{
    copy = (struct rig){.options = leader.options};
    embedding_env_init(&copy.env);
    copy.options.dir = where;
    copy.options.context = &copy;
    int rc = engine_seed_open(seed, &copy.options, &copy.env.env, &copy.g, e);
    if (rc == 0) {
        rig_come_back(&copy);
        rig_lead(&copy);
    }
    return rc;
}

static void plant(const char *where, const struct parts *p)
{
    struct engine_options o = leader.options;
    struct err e = {0};
    o.dir = where;
    struct engine_seed *seed = seed_of(&o);
    take(seed, p, 0, p->count);
    int rc = seed_open(seed, where, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
}

/* ---- a leader with some of everything ---- */

static struct table_schema strict_schema(uint32_t number)
{
    struct table_schema s = rig_schema(number);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 3;
    s.rules.admit_sketch = 8;
    return s;
}

static void push_some(struct rig *s, uint32_t table, uint32_t lane, uint64_t from, uint64_t to)
{
    static struct rig_push p;
    struct push_plan plan;
    for (uint64_t batch = from + 1; batch <= to; batch++) {
        rig_push_make(&p, 1, table, lane, 0, batch - 1, batch);
        ck_assert_int_eq(rig_push(s, &p, &plan), 0);
        engine_flush_step(s->g);
        embedding_env_run(&s->env);
    }
}

/* mode 2: bsp, whose rows keep undo. */
static void lead_some(enum durability durability, const char *where)
{
    const struct table_schema strict = strict_schema(1);
    static struct rig_push p;
    struct err e = {0};
    uint64_t changed;
    int rc = rig_try_open_sized(&leader, where, durability, 1u << 20, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    rig_lead(&leader);
    rig_table(&leader, 0);
    ck_assert_msg(engine_table_create(leader.g, &strict, &e) == 0, "%s", e.text);
    ck_assert_int_eq(engine_run_open(leader.g, 1, 2, 2, &e), 0);
    push_some(&leader, 0, 1, 0, 60);
    push_some(&leader, 1, 0, 0, 3);
    rig_push_make(&p, 1, 0, 0, 0, 0, 1);
    ck_assert_int_eq(engine_keys(leader.g, 0, KEY_ERASE, p.keys, 3, &changed, &e), 0);
    ck_assert_int_eq(engine_keys(leader.g, 1, KEY_BLOCK, p.keys + 5, 2, &changed, &e), 0);
    push_some(&leader, 1, 1, 0, 2);
    push_some(&leader, 0, 0, 0, 20);
}

static const struct kind {
    enum durability durability;
    bool folder;
} kinds[] = {{DURABLE_JOURNAL, true}, {DURABLE_MEMORY, false}, {DURABLE_MEMORY, true}};
#define KINDS 3

static void lead_kind(int i)
{
    lead_some(kinds[i].durability, kinds[i].folder ? dir : NULL);
}

static const char *where(int i)
{
    if (kinds[i].folder)
        return other;
    return NULL;
}

/* ---- tests ---- */

START_TEST(a_copy_equals_its_leader)
{
    static const size_t most[] = {4096, 60000, 4u << 20};
    lead_kind(_i / 3);
    uint64_t state = state_of(&leader);
    copy_begin(&leader, &parts);
    ck_assert_uint_eq(parts.sequence, leader.g->sequence);
    parts_read(&leader, &parts, most[_i % 3]);
    plant(where(_i / 3), &parts);
    ck_assert_uint_eq(copy.g->sequence, parts.sequence);
    ck_assert_uint_eq(state_of(&copy), state);
    push_some(&leader, 1, 0, 3, 9);
    push_some(&leader, 0, 0, 20, 30);
    push_some(&copy, 1, 0, 3, 9);
    push_some(&copy, 0, 0, 20, 30);
    ck_assert_uint_eq(state_of(&copy), state_of(&leader));
    state = state_of(&copy);
    rig_close(&copy, false);
    if (kinds[_i / 3].durability != DURABLE_MEMORY) {
        rig_open(&copy, other, kinds[_i / 3].durability);
        ck_assert_uint_eq(state_of(&copy), state);
        rig_close(&copy, true);
    }
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

/* The images of a journalled leader are older than the cut, so that there are records behind
 * them. */
START_TEST(a_copy_has_images_and_records)
{
    lead_kind(0);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 4u << 20);
    uint32_t pairs = 0, records = 0;
    const struct copy_head *h = parts.part[0];
    const char *at = (const char *)(h + 1);
    for (uint32_t i = 0; i < h->items; i++) {
        const struct copy_item *item = (const void *)at;
        pairs += item->key_bytes > 0;
        records += item->key_bytes == 0;
        at += sizeof *item + copy_padded(item->bytes);
    }
    ck_assert_uint_gt(pairs, 16);
    ck_assert_uint_gt(records, 1);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

START_TEST(a_leader_goes_on_while_it_is_copied)
{
    lead_kind(_i);
    uint64_t state = state_of(&leader), batch = 20;
    copy_begin(&leader, &parts);
    do {
        part_must(&leader, &parts, 60000);
        push_some(&leader, 0, 0, batch, batch + 3);
        batch += 3;
    } while (parts.next_bytes > 0);
    ck_assert_uint_gt(parts.count, 10);
    ck_assert_uint_ne(state_of(&leader), state);
    engine_copy_end(leader.g, parts.number);
    plant(where(_i), &parts);
    ck_assert_uint_eq(state_of(&copy), state);
    push_some(&copy, 0, 0, 20, batch);
    ck_assert_uint_eq(state_of(&copy), state_of(&leader));
    rig_close(&copy, false);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

/* ---- a copy that follows ---- */

static uint64_t followed;

static void follow(void *context, int status, const void *records, size_t bytes, uint64_t last)
{
    (void)context;
    ck_assert_int_eq(status, 0);
    for (size_t at = 0; at < bytes;) {
        struct engine_followed f;
        struct err e = {0};
        int rc = SHOAL_E_BUSY;
        for (int tries = 0; tries < 100 && (rc == SHOAL_E_BUSY || rc == SHOAL_E_AGAIN); tries++) {
            rc = engine_follow(copy.g, (const char *)records + at, bytes - at, &f, &e);
            engine_flush_step(copy.g);
            embedding_env_run(&copy.env);
        }
        ck_assert_msg(rc == 0, "%s", e.text);
        ck_assert_int_eq(engine_commit(copy.g), 0);
        if (f.kind == RECORD_PUSH)
            ck_assert_int_eq(engine_apply_push(copy.g, &f.push, &f.plan), 0);
        at += f.bytes;
        followed++;
    }
    ck_assert_uint_eq(copy.g->sequence, bytes > 0 ? last : copy.g->sequence);
}

static void follow_to_end(void)
{
    struct err e = {0};
    followed = 0;
    for (int i = 0; i < 1000 && copy.g->sequence < leader.g->sequence; i++) {
        ck_assert_int_eq(engine_records(leader.g, copy.g->sequence, 60000, follow, NULL, &e), 0);
        embedding_env_run(&leader.env);
    }
    ck_assert_uint_gt(followed, 10);
}

START_TEST(a_copy_follows_its_leader)
{
    struct err e = {0};
    lead_kind(_i);
    ck_assert_int_eq(engine_tail(leader.g, 4u << 20, &e), 0);
    ck_assert_int_eq(engine_term_begin(leader.g, 3, &e), 0);
    push_some(&leader, 0, 0, 20, 22);
    copy_begin(&leader, &parts);
    uint64_t batch = 22;
    do {
        part_must(&leader, &parts, 100000);
        push_some(&leader, 0, 0, batch, batch + 2);
        batch += 2;
    } while (parts.next_bytes > 0);
    ck_assert_int_eq(engine_term_begin(leader.g, 4, &e), 0);
    plant(where(_i), &parts);
    ck_assert_uint_eq(engine_last_term(copy.g), 3);
    follow_to_end();
    ck_assert_uint_eq(engine_last_term(copy.g), 4);
    ck_assert_uint_eq(state_of(&copy), state_of(&leader));
    rig_close(&copy, false);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

START_TEST(a_copy_with_cold_rows_follows_its_leader)
{
    struct err e = {0};
    thin_open_trained(&leader, dir, THIN_MEMORY, 80, true);
    ck_assert_int_eq(engine_tail(leader.g, 1u << 20, &e), 0);
    copy_begin(&leader, &parts);
    do {
        part_must(&leader, &parts, 1u << 20);
        thin_train(&leader, 1, 79 + parts.count, 80 + parts.count, true);
    } while (parts.next_bytes > 0);
    plant(other, &parts);
    follow_to_end();
    ck_assert_uint_eq(thin_digest(&copy), thin_digest(&leader));
    ck_assert_uint_eq(state_of(&copy), state_of(&leader));
    thin_within(&copy, THIN_MOST);
    rig_close(&copy, false);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

/* Most rows of leader and copy lie in their stores. */
START_TEST(a_copy_has_the_cold_rows)
{
    thin_open_trained(&leader, dir, THIN_MEMORY, 80, _i == 1);
    ck_assert_uint_gt(table_cold_rows(engine_table(leader.g, 0)), 5000);
    uint64_t digest = thin_digest(&leader), state = state_of(&leader);
    copy_begin(&leader, &parts);
    do {
        part_must(&leader, &parts, 1u << 20);
        thin_train(&leader, 1, 79 + parts.count, 80 + parts.count, _i == 1);
    } while (parts.next_bytes > 0);
    engine_copy_end(leader.g, parts.number);
    embedding_env_run(&leader.env);
    plant(other, &parts);
    ck_assert_uint_eq(thin_digest(&copy), digest);
    ck_assert_uint_eq(state_of(&copy), state);
    thin_train(&copy, 1, 80, 80 + parts.count, _i == 1);
    ck_assert_uint_eq(thin_digest(&copy), thin_digest(&leader));
    thin_within(&copy, THIN_MOST);
    digest = thin_digest(&copy);
    rig_close(&copy, false);
    thin_open(&copy, other, THIN_MEMORY);
    ck_assert_uint_eq(thin_digest(&copy), digest);
    rig_close(&copy, false);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

/* While a restore is not written yet, the private cut has all images and no records. */
START_TEST(a_copy_right_after_a_restore)
{
    thin_open_trained(&leader, dir, THIN_MEMORY, 60, false);
    thin_cut(&leader, 5);
    thin_train(&leader, 1, 60, 70, false);
    thin_restore(&leader, 5, 2);
    ck_assert_uint_gt(leader.g->ref_count, 0);
    const struct table_schema untouched = rig_schema(9);
    struct err e = {0};
    ck_assert_int_eq(engine_table_create(leader.g, &untouched, &e), 0);
    leader.g->loaded[leader.g->loads++] =
        (struct engine_loaded){.run = 1, .tables = table_set_word(1)};
    uint64_t state = state_of(&leader);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 1u << 20);
    plant(other, &parts);
    ck_assert_uint_eq(state_of(&copy), state);
    for (uint32_t k = 0; k < copy.g->table[9].scope.tablets; k++) /* it may be loaded into */
        ck_assert_uint_eq(copy.g->table[9].changed[k], 0);
    for (int i = 0; i < 2; i++) { /* a start knows the last load as well */
        ck_assert_uint_eq(copy.g->loads, 1);
        ck_assert_uint_eq(copy.g->loaded[0].run, 1);
        ck_assert_uint_eq(copy.g->loaded[0].tables.word[0], 1);
        rig_close(&copy, false);
        if (i == 0)
            thin_open(&copy, other, THIN_MEMORY);
    }
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

START_TEST(a_flipped_bit_is_refused)
{
    lead_kind(_i);
    uint64_t state = state_of(&leader);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 20000);
    struct engine_options o = leader.options;
    struct err e = {0};
    o.dir = where(_i);
    struct engine_seed *seed = seed_of(&o);
    for (uint32_t i = 0; i < parts.count; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "part %u of copy", i);
        uint8_t *bytes = parts.part[i];
        for (size_t bit = i; bit < 8 * parts.bytes[i]; bit += 1 + 8 * parts.bytes[i] / 40) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            ck_assert_int_eq(engine_seed_take(seed, bytes, parts.bytes[i], &e), SHOAL_E_CHECKSUM);
            ck_assert_msg(strstr(e.text, expected) != NULL, "%s", e.text);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        ck_assert_int_ne(engine_seed_take(seed, bytes, parts.bytes[i] - 1, &e), 0);
        ck_assert_int_ne(engine_seed_take(seed, bytes, 7, &e), 0);
        take(seed, &parts, i, i + 1);
    }
    ck_assert_int_eq(seed_open(seed, where(_i), &e), 0);
    ck_assert_uint_eq(state_of(&copy), state);
    rig_close(&copy, false);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

/* A part whose checksum is right, from a leader with a fault. */
START_TEST(a_part_beyond_limits_is_refused)
{
    lead_kind(0);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 20000);
    struct engine_options o = leader.options;
    o.dir = other;
    struct engine_seed *seed = seed_of(&o);
    take(seed, &parts, 0, 1);
    for (int i = 0; i < 9; i++) {
        struct err e = {0};
        char *bad = malloc(parts.bytes[1]);
        memcpy(bad, parts.part[1], parts.bytes[1]);
        struct copy_head *h = (void *)bad;
        struct copy_item *item = (void *)(bad + sizeof *h);
        uint64_t *const of[] = {&h->number,     &h->sequence, &h->from.salt, &h->from.offset,
                                &h->next.index, &item->total, &item->offset};
        if (i < 7)
            *of[i] += 1ull << 40;
        else if (i == 7)
            h->items++;
        else
            item->key[0] = 'x';
        h->checksum = copy_checksum(bad, parts.bytes[1]);
        ck_assert_msg(engine_seed_take(seed, bad, parts.bytes[1], &e) == SHOAL_E_CORRUPT,
                      "change %d: %s", i, e.text);
        ck_assert_ptr_nonnull(strstr(e.text, "part 1 of copy"));
        free(bad);
    }
    take(seed, &parts, 1, parts.count);
    engine_seed_free(seed);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

/* Changed bytes under a right checksum: a part is refused, or the engine says what is wrong, or it
 * opens. */
START_TEST(a_changed_part_never_crashes)
{
    const char *seeds = getenv("SHOAL_SEEDS");
    const uint64_t most = seeds == NULL ? 60 : strtoull(seeds, NULL, 10);
    uint64_t refused = 0, opened = 0;
    lead_kind(_i);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 60000);
    struct engine_options o = leader.options;
    o.dir = where(_i);
    for (uint64_t n = 0; n < most; n++) {
        struct rng r = rng_of(n, (uint64_t)_i, 3);
        struct engine_seed *seed = seed_of(&o);
        struct err e = {0};
        int rc = 0;
        for (uint32_t i = 0; i < parts.count && rc == 0; i++) {
            char *bad = malloc(parts.bytes[i]);
            memcpy(bad, parts.part[i], parts.bytes[i]);
            struct copy_head *h = (void *)bad;
            size_t first = sizeof *h, span = 48;
            if (rng_below(&r, 2) == 0)
                span = parts.bytes[i] - first;
            if (parts.bytes[i] >= first + span && rng_below(&r, parts.count) == 0)
                bad[first + rng_below(&r, span)] ^= (char)(1u << rng_below(&r, 8));
            h->checksum = copy_checksum(bad, parts.bytes[i]);
            rc = engine_seed_take(seed, bad, parts.bytes[i], &e);
            free(bad);
        }
        if (rc == 0)
            rc = seed_open(seed, where(_i), &e);
        else
            engine_seed_free(seed);
        ck_assert(rc == 0 || e.text[0] != '\0');
        refused += rc != 0;
        opened += rc == 0;
        if (rc == 0)
            rig_close(&copy, false);
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(opened, 0);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

START_TEST(a_part_too_early_is_refused)
{
    struct err e = {0};
    lead_kind(_i);
    uint64_t state = state_of(&leader);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 60000);
    ck_assert_uint_gt(parts.count, 4);
    struct engine_options o = leader.options;
    o.dir = where(_i);
    struct engine_seed *seed = seed_of(&o);
    ck_assert_int_eq(engine_seed_take(seed, parts.part[2], parts.bytes[2], &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "part 2 of copy"));
    ck_assert_ptr_nonnull(strstr(e.text, "part 0 is missing"));
    take(seed, &parts, 0, 2);
    ck_assert_int_eq(engine_seed_take(seed, parts.part[3], parts.bytes[3], &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "part 2 is missing"));
    take(seed, &parts, 2, parts.count - 1);
    ck_assert_int_eq(seed_open(seed, where(_i), &e), SHOAL_E_MALFORMED); /* the last is missing */
    plant(where(_i), &parts);
    ck_assert_uint_eq(state_of(&copy), state);
    rig_close(&copy, false);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

START_TEST(a_part_may_be_read_and_taken_again)
{
    struct err e = {0};
    lead_kind(_i);
    uint64_t state = state_of(&leader);
    struct engine_options o = leader.options;
    o.dir = where(_i);
    struct engine_seed *seed = seed_of(&o);
    copy_begin(&leader, &parts);
    do {
        char at[ENGINE_COPY_POSITION];
        const size_t at_bytes = parts.next_bytes;
        memcpy(at, parts.next, at_bytes);
        part_must(&leader, &parts, 5000);
        memcpy(parts.next, at, at_bytes);
        parts.next_bytes = at_bytes;
        part_must(&leader, &parts, 5000);
        const uint32_t last = parts.count - 1;
        ck_assert_uint_eq(parts.bytes[last], parts.bytes[last - 1]);
        ck_assert_mem_eq(parts.part[last], parts.part[last - 1], parts.bytes[last]);
        take(seed, &parts, last - 1, last + 1);
        take(seed, &parts, last / 2, last / 2 + 1);
    } while (parts.next_bytes > 0);
    take(seed, &parts, 0, parts.count);
    ck_assert_int_eq(seed_open(seed, where(_i), &e), 0);
    ck_assert_uint_eq(state_of(&copy), state);
    rig_close(&copy, false);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

START_TEST(a_position_of_another_copy_is_refused)
{
    static struct parts second;
    struct err e = {0};
    lead_kind(_i);
    copy_begin(&leader, &parts);
    part_must(&leader, &parts, 4096);
    leader.env.now_ns++;
    copy_begin(&leader, &second);
    ck_assert_uint_ne(parts.number, second.number);
    part_must(&leader, &second, 4096);
    second.number = parts.number;
    ck_assert_int_eq(part_read(&leader, &second, 4096, &e), SHOAL_E_NOT_FOUND);
    memset(second.next, 0xff, sizeof second.next);
    ck_assert_int_eq(part_read(&leader, &second, 4096, &e), SHOAL_E_NOT_FOUND);
    part_must(&leader, &parts, 4096);
    struct copy_at *at = (void *)parts.next; /* behind the end of its item */
    at->offset = 1ull << 40;
    ck_assert_int_eq(part_read(&leader, &parts, 4096, &e), SHOAL_E_NOT_FOUND);
    rig_close(&leader, false);
    parts_free(&parts);
    parts_free(&second);
}
END_TEST

static uint32_t entries(const char *name)
{
    char path[LIMIT_PATH];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%.900s/%s", dir, name);
    DIR *d = opendir(path);
    for (struct dirent *entry; d != NULL && (entry = readdir(d)) != NULL;)
        count += entry->d_name[0] != '.';
    if (d != NULL)
        closedir(d);
    return count;
}

static void gone(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

START_TEST(a_private_cut_is_not_told)
{
    uint64_t cut[4], sequence;
    int status = 1;
    lead_kind(_i);
    copy_begin(&leader, &parts);
    ck_assert_uint_eq(engine_cuts(leader.g, cut, 4), 0);
    ck_assert_int_eq(engine_hold(leader.g, 7, 1, &sequence), 0);
    ck_assert_int_eq(engine_go(leader.g, 7, gone, &status), 0);
    embedding_env_run(&leader.env);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(engine_cuts(leader.g, cut, 4), 1);
    ck_assert_uint_eq(cut[0], 7);
    part_must(&leader, &parts, 4096);
    if (kinds[_i].folder)
        ck_assert_uint_eq(entries("cuts"), 2);
    engine_copy_end(leader.g, parts.number);
    embedding_env_run(&leader.env);
    if (kinds[_i].folder)
        ck_assert_uint_eq(entries("cuts"), 1);
    else
        ck_assert_uint_eq(leader.g->mem_cut_count, 1);
    parts_free(&parts);
    copy_begin(&leader, &parts);
    rig_close(&leader, false);
    if (kinds[_i].folder)
        ck_assert_uint_eq(entries("cuts"), 1);
    parts_free(&parts);
}
END_TEST

static void begin_and_die(void *context)
{
    rig_open(&leader, dir, *(enum durability *)context);
    rig_table(&leader, 3);
    copy_begin(&leader, &parts);
    ck_assert_uint_eq(entries("cuts"), 1);
}

START_TEST(a_private_cut_goes_at_a_start)
{
    enum durability durability = _i == 0 ? DURABLE_JOURNAL : DURABLE_MEMORY;
    rig_in_child(begin_and_die, &durability);
    ck_assert_uint_eq(entries("cuts"), 1);
    rig_open(&leader, dir, durability);
    ck_assert_uint_eq(entries("cuts"), 0);
    rig_close(&leader, false);
}
END_TEST

START_TEST(a_copy_that_is_ended_while_it_is_read)
{
    struct err e = {0};
    lead_kind(_i);
    copy_begin(&leader, &parts);
    part_must(&leader, &parts, 4096);
    parts.calls = 0;
    ck_assert_int_eq(engine_copy_read(leader.g, parts.number, parts.next, parts.next_bytes, 4096,
                                      came, &parts, &e),
                     0);
    ck_assert_int_eq(engine_copy_read(leader.g, parts.number, NULL, 0, 4096, came, &parts, &e),
                     SHOAL_E_BUSY);
    engine_copy_end(leader.g, parts.number);
    ck_assert_int_eq(part_read(&leader, &parts, 4096, &e), SHOAL_E_NOT_FOUND);
    embedding_env_run(&leader.env);
    ck_assert_int_eq(parts.calls, 1);
    ck_assert_int_eq(parts.status, SHOAL_E_NOT_FOUND);
    ck_assert_uint_eq(entries("cuts"), 0);
    ck_assert_uint_eq(leader.g->mem_cut_count, 0);
    parts_free(&parts);

    /* One that is not made yet, and one that is read when the engine closes. */
    parts.status = 1;
    ck_assert_int_eq(engine_copy_begin(leader.g, begun, &parts, &e), 0);
    ck_assert_int_eq(engine_copy_begin(leader.g, begun, &parts, &e), SHOAL_E_BUSY);
    engine_copy_end(leader.g, UINT64_MAX - 1);
    embedding_env_run(&leader.env);
    ck_assert_int_eq(parts.status, SHOAL_E_NOT_FOUND);
    copy_begin(&leader, &parts);
    parts.calls = 0;
    ck_assert_int_eq(engine_copy_read(leader.g, parts.number, NULL, 0, 4096, came, &parts, &e), 0);
    rig_close(&leader, false);
    ck_assert_int_eq(parts.calls, 0);
    ck_assert_uint_eq(entries("cuts"), 0);
    parts_free(&parts);
}
END_TEST

static void place_set(struct rig *s)
{
    const struct engine_place place = {.cluster = {1, 2}, .number = 3, .shards = 4};
    struct err e = {0};
    ck_assert_int_eq(engine_place_set(s->g, &place, &e), 0);
    ck_assert_int_eq(engine_taken_set(s->g, 2, 9, "taken", 5, &e), 0);
}

/* Its old rows, records and cuts go; what it is stays. */
START_TEST(a_folder_with_rows_becomes_a_copy)
{
    uint64_t cut[4], sequence;
    int status = 1;
    struct err e = {0};
    lead_kind(_i);
    uint64_t state = state_of(&leader);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 60000);
    rig_open(&copy, other, kinds[_i].durability);
    rig_table(&copy, 5);
    place_set(&copy);
    ck_assert_int_eq(engine_hold(copy.g, 7, 0, &sequence), 0);
    ck_assert_int_eq(engine_go(copy.g, 7, gone, &status), 0);
    embedding_env_run(&copy.env);
    ck_assert_int_eq(status, 0);
    struct rig old = copy;
    struct engine_options o = leader.options;
    o.dir = other;
    struct engine_seed *seed = seed_of(&o);
    take(seed, &parts, 0, parts.count); /* the old engine is open meanwhile */
    ck_assert_int_eq(seed_open(seed, other, &e), SHOAL_E_UNAVAILABLE);
    seed = seed_of(&o);
    take(seed, &parts, 0, parts.count);
    ck_assert_int_eq(engine_close(old.g, false), 0);
    ck_assert_int_eq(seed_open(seed, other, &e), 0);
    ck_assert_uint_eq(state_of(&copy), state);
    ck_assert_uint_eq(engine_cuts(copy.g, cut, 4), 0);
    ck_assert_uint_eq(engine_place(copy.g)->number, 3);
    ck_assert_uint_eq(engine_taken_version(copy.g, 2), 9);
    rig_close(&copy, false);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

START_TEST(a_wiped_folder_is_an_empty_engine)
{
    struct err e = {0};
    lead_kind(_i);
    place_set(&leader);
    ck_assert_int_eq(engine_wipe(dir, &e), SHOAL_E_UNAVAILABLE);
    rig_close(&leader, false);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(engine_wipe(dir, &e) == 0, "%s", e.text);
    rig_open(&leader, dir, kinds[_i].durability);
    ck_assert_uint_eq(leader.g->sequence, 0);
    ck_assert_ptr_null(engine_table(leader.g, 0));
    ck_assert_uint_eq(engine_place(leader.g)->number, 3);
    rig_close(&leader, false);
}
END_TEST

/* ---- power ---- */

/* A copy comes into a folder, which has rows of its own (old) or is new, and power goes at call
 * `at`. Returns true if it went. */
static bool seed_and_lose_power(struct disk *d, uint64_t at, uint64_t seed_number)
{
    struct engine_seed *seed;
    struct err e = {0};
    struct engine_options o = leader.options;
    o.dir = other;
    disk_fail(d, &(struct disk_fault){.at = at, .kind = DISK_OFF, .seed = seed_number});
    int rc = engine_seed_begin(&o, &seed, &e);
    for (uint32_t i = 0; rc == 0 && i < parts.count; i++) {
        rc = engine_seed_take(seed, parts.part[i], parts.bytes[i], &e);
        if (rc != 0)
            engine_seed_free(seed);
    }
    if (rc == 0)
        rc = seed_open(seed, other, &e);
    bool off = disk_is_off(d);
    if (!off)
        disk_off(d, seed_number);
    if (rc == 0)
        (void)engine_close(copy.g, false);
    disk_on(d);
    return off;
}

START_TEST(power_leaves_the_old_rows_or_the_new_ones)
{
    const char *every = getenv("SHOAL_EVERY");
    const uint64_t step = every == NULL ? 7 : strtoull(every, NULL, 10);
    uint64_t old_state = 0, kept = 0, replaced = 0;
    bool off = true;
    lead_some(DURABLE_JOURNAL, dir);
    uint64_t state = state_of(&leader);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 200000);
    char base[LIMIT_PATH];
    snprintf(base, sizeof base, "%.900s/disk", root);
    snprintf(other, sizeof other, "%.900s/disk/copy", root);
    for (uint64_t at = 1 + (uint64_t)_i; off; at += step) {
        ck_assert_int_eq(mkdir(base, 0700), 0);
        if (_i > 0) { /* it has rows */
            rig_open(&copy, other, DURABLE_JOURNAL);
            rig_table(&copy, 5);
            old_state = state_of(&copy);
            rig_close(&copy, _i == 2);
        }
        struct disk *d = disk_watch(base);
        off = seed_and_lose_power(d, at, at * 31 + (uint64_t)_i);
        disk_free(d);
        rig_open(&copy, other, DURABLE_JOURNAL);
        uint64_t found = state_of(&copy);
        bool is_old = copy.g->sequence == 0;
        if (_i > 0)
            is_old = found == old_state;
        ck_assert_msg(is_old || found == state, "call %" PRIu64 ": record %" PRIu64, at,
                      copy.g->sequence);
        ck_assert(off || !is_old);
        kept += is_old;
        replaced += !is_old;
        rig_close(&copy, false);
        rig_remove_dir(base);
    }
    ck_assert_uint_gt(kept, 1);
    ck_assert_uint_gt(replaced, 1);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

START_TEST(power_leaves_all_or_nothing_of_a_wiped_folder)
{
    bool off = true;
    uint64_t emptied = 0, kept = 0;
    char base[LIMIT_PATH];
    snprintf(base, sizeof base, "%.900s/disk", root);
    snprintf(other, sizeof other, "%.900s/disk/copy", root);
    for (uint64_t at = 1; off; at++) {
        struct err e = {0};
        ck_assert_int_eq(mkdir(base, 0700), 0);
        rig_open(&copy, other, DURABLE_JOURNAL);
        rig_table(&copy, 5);
        uint64_t state = state_of(&copy);
        rig_close(&copy, at % 2 == 0);
        struct disk *d = disk_watch(base);
        disk_fail(d, &(struct disk_fault){.at = at, .kind = DISK_OFF, .seed = at});
        (void)engine_wipe(other, &e);
        off = disk_is_off(d);
        if (!off)
            disk_off(d, at);
        disk_on(d);
        disk_free(d);
        rig_open(&copy, other, DURABLE_JOURNAL);
        bool empty = copy.g->sequence == 0 && engine_table(copy.g, 5) == NULL;
        ck_assert_msg(empty || state_of(&copy) == state, "call %" PRIu64, at);
        ck_assert(off || empty);
        emptied += empty;
        kept += !empty;
        rig_close(&copy, false);
        rig_remove_dir(base);
    }
    ck_assert_uint_gt(emptied, 1);
    ck_assert_uint_gt(kept, 1);
}
END_TEST

/* A disk that fails while parts are taken: the seed takes no more, and a new one does. */
START_TEST(a_seed_whose_disk_fails_begins_anew)
{
    uint64_t failed = 0;
    bool came_then = true;
    char base[LIMIT_PATH];
    lead_some(DURABLE_JOURNAL, dir);
    uint64_t state = state_of(&leader);
    copy_begin(&leader, &parts);
    parts_read(&leader, &parts, 200000);
    snprintf(base, sizeof base, "%.900s/disk", root);
    snprintf(other, sizeof other, "%.900s/disk/copy", root);
    struct engine_options o = leader.options;
    o.dir = other;
    for (uint64_t at = 1; came_then; at += 11) {
        struct engine_seed *seed;
        struct err e = {0};
        ck_assert_int_eq(mkdir(base, 0700), 0);
        struct disk *d = disk_watch(base);
        disk_fail(d, &(struct disk_fault){.at = at, .kind = DISK_ERROR, .why = ENOSPC});
        int rc = engine_seed_begin(&o, &seed, &e);
        for (uint32_t i = 0; rc == 0 && i < parts.count; i++) {
            rc = engine_seed_take(seed, parts.part[i], parts.bytes[i], &e);
            if (rc == 0)
                continue;
            ck_assert_int_ne(engine_seed_take(seed, parts.part[i], parts.bytes[i], &e), 0);
            engine_seed_free(seed);
        }
        if (rc == 0)
            rc = seed_open(seed, other, &e);
        came_then = disk_failed(d);
        ck_assert(rc == 0 || (came_then && e.text[0] != '\0'));
        failed += rc != 0;
        if (rc == 0)
            rig_close(&copy, false);
        disk_fail(d, &(struct disk_fault){0});
        plant(other, &parts);
        ck_assert_uint_eq(state_of(&copy), state);
        rig_close(&copy, false);
        disk_free(d);
        rig_remove_dir(base);
    }
    ck_assert_uint_gt(failed, 3);
    rig_close(&leader, false);
    parts_free(&parts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy");
    TCase *t = suite_case(suite, "copy", 600, setup, teardown);
    tcase_add_loop_test(t, a_copy_equals_its_leader, 0, 3 * KINDS);
    tcase_add_test(t, a_copy_has_images_and_records);
    tcase_add_loop_test(t, a_leader_goes_on_while_it_is_copied, 0, KINDS);
    tcase_add_loop_test(t, a_copy_follows_its_leader, 0, KINDS);
    tcase_add_test(t, a_copy_with_cold_rows_follows_its_leader);
    tcase_add_loop_test(t, a_copy_has_the_cold_rows, 0, 2);
    tcase_add_test(t, a_copy_right_after_a_restore);
    tcase_add_loop_test(t, a_flipped_bit_is_refused, 0, KINDS);
    tcase_add_test(t, a_part_beyond_limits_is_refused);
    tcase_add_loop_test(t, a_changed_part_never_crashes, 0, KINDS);
    tcase_add_loop_test(t, a_part_too_early_is_refused, 0, KINDS);
    tcase_add_loop_test(t, a_part_may_be_read_and_taken_again, 0, KINDS);
    tcase_add_loop_test(t, a_position_of_another_copy_is_refused, 0, KINDS);
    tcase_add_loop_test(t, a_private_cut_is_not_told, 0, KINDS);
    tcase_add_loop_test(t, a_private_cut_goes_at_a_start, 0, 2);
    tcase_add_loop_test(t, a_copy_that_is_ended_while_it_is_read, 0, KINDS);
    tcase_add_loop_test(t, a_folder_with_rows_becomes_a_copy, 0, 1);
    tcase_add_loop_test(t, a_folder_with_rows_becomes_a_copy, 2, 3);
    tcase_add_loop_test(t, a_wiped_folder_is_an_empty_engine, 0, 1);
    tcase_add_loop_test(t, a_wiped_folder_is_an_empty_engine, 2, 3);
    tcase_add_loop_test(t, power_leaves_the_old_rows_or_the_new_ones, 0, 3);
    tcase_add_test(t, power_leaves_all_or_nothing_of_a_wiped_folder);
    tcase_add_test(t, a_seed_whose_disk_fails_begins_anew);
    return suite_main(suite);
}
