/* test_image.c: images: a written image is read back, and any other is refused. */
#include "embedding/rows/image.h"
#include "embedding/rows/key_names.h"
#include "embedding/rows/rules/life.h"
#include "embedding/rows/rules/named.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_stats.h"

#include <math.h>
#include <stddef.h>

#define ROWS 3000

struct image {
    char *data;
    size_t bytes;
};

static struct rows filled(const struct table_schema *s)
{
    struct rows r = rows_open(s);
    for (uint64_t i = 0; i < ROWS; i++)
        rows_push_one(&r, rows_key(i), 0.5f, i > ROWS - 400 ? 9 : 0);
    return r;
}

static struct image image_of(const struct table *t, uint32_t tablet)
{
    struct image m = {NULL, table_image_bytes(t, tablet)};
    m.data = malloc(m.bytes);
    ck_assert_ptr_nonnull(m.data);
    table_image_write(t, tablet, m.data);
    return m;
}

static void image_seal(struct image *m)
{
    uint64_t sum = hash_bytes(m->data, m->bytes - 8, 0);
    memcpy(m->data + m->bytes - 8, &sum, 8);
}

START_TEST(image_read_gives_back_rows_and_undo)
{
    struct table_schema s = rows_schema((enum optimizer_kind)_i, _i == 3 ? 16 : 5, 2);
    struct rows a = filled(&s), b = rows_open(&s);
    rows_push_one(&b, 12345, 1, 3); /* earlier rows are replaced */
    static uint64_t keys[ROWS];
    static float x[ROWS * 16], y[ROWS * 16];
    for (uint64_t i = 0; i < ROWS; i++)
        keys[i] = rows_key(i);
    for (uint32_t t = 0; t < 4; t++) {
        struct image m = image_of(a.table, t);
        char *odd = malloc(m.bytes + 1); /* at an odd address, as a store may give it */
        struct err e = {0};
        memcpy(odd + 1, m.data, m.bytes);
        ck_assert_msg(table_image_read(b.table, t, odd + 1, m.bytes, &e) == 0, "%s", e.text);
        struct image again = image_of(b.table, t);
        ck_assert_uint_eq(again.bytes, m.bytes);
        free(odd);
        free(m.data);
        free(again.data);
    }
    ck_assert_uint_eq(table_rows(b.table), ROWS);
    ck_assert_uint_eq(rows_digest(a.table), rows_digest(b.table));
    for (uint64_t clock = 8; clock < 11; clock++) {
        pull_before(a.table, keys, ROWS, clock, x);
        pull_before(b.table, keys, ROWS, clock, y);
        ck_assert_mem_eq(x, y, ROWS * s.width * sizeof(float));
    }
    /* The undo continues: the same clock adds to it, the next one drops it. */
    for (uint64_t clock = 9; clock < 11; clock++) {
        rows_push_one(&a, rows_key(1), 1, clock);
        rows_push_one(&b, rows_key(1), 1, clock);
        for (uint32_t t = 0; t < 4; t++)
            ck_assert_uint_eq(table_image_bytes(a.table, t), table_image_bytes(b.table, t));
    }
    rows_close(&a);
    rows_close(&b);
}
END_TEST

START_TEST(image_of_an_empty_tablet_empties)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 5, 2);
    struct rows empty = rows_open(&s), r = filled(&s);
    struct image m = image_of(empty.table, 1);
    ck_assert_uint_eq(m.bytes, sizeof(struct image_header) + 8);
    ck_assert_int_eq(table_image_read(r.table, 1, m.data, m.bytes, NULL), 0);
    ck_assert_uint_eq(table_tablet_rows(r.table, 1), 0);
    free(m.data);
    rows_close(&empty);
    rows_close(&r);
}
END_TEST

/* A refused image leaves the tablet and its memory unchanged. */
static void assert_refused(struct rows *r, uint32_t tablet, const void *data, size_t bytes,
                           int expected)
{
    struct err e = {0};
    int status = table_image_read(r->table, tablet, data, bytes, &e);
    ck_assert_int_ne(status, 0);
    if (expected != 0)
        ck_assert_msg(status == expected, "%d: %s", status, e.text);
    ck_assert_int_eq(e.code, status);
    ck_assert_int_ne(e.text[0], 0);
}

START_TEST(image_flipped_in_any_bit_is_refused)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 3, 6);
    struct rows r = filled(&s);
    uint64_t digest = rows_digest(r.table);
    struct image m = image_of(r.table, 5);
    struct rng random = rng_of(1, 1, 1);
    for (size_t bit = 0; bit < (sizeof(struct image_header) + 16) * 8; bit++) {
        m.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_refused(&r, 5, m.data, m.bytes, 0);
        m.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (int i = 0; i < 5000; i++) {
        size_t bit = rng_below(&random, m.bytes * 8);
        m.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_refused(&r, 5, m.data, m.bytes, 0);
        m.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    ck_assert_uint_eq(rows_digest(r.table), digest);
    ck_assert_int_eq(table_image_read(r.table, 5, m.data, m.bytes, NULL), 0);
    ck_assert_uint_eq(rows_digest(r.table), digest);
    free(m.data);
    rows_close(&r);
}
END_TEST

START_TEST(image_cut_short_or_lengthened_is_refused)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 3, 6);
    struct rows r = filled(&s);
    struct image m = image_of(r.table, 5);
    for (size_t bytes = 0; bytes < m.bytes; bytes++) {
        char *exact = malloc(bytes + 1); /* so that a sanitizer sees a read past the end */
        memcpy(exact, m.data, bytes);
        assert_refused(&r, 5, exact, bytes, SHOAL_E_CORRUPT);
        free(exact);
    }
    char *longer = calloc(1, m.bytes + 8);
    memcpy(longer, m.data, m.bytes);
    assert_refused(&r, 5, longer, m.bytes + 8, SHOAL_E_CORRUPT);
    free(longer);
    free(m.data);
    rows_close(&r);
}
END_TEST

START_TEST(image_of_another_tablet_or_schema_is_refused)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 3, 6), other = s;
    struct rows r = filled(&s);
    struct image m = image_of(r.table, 5);
    assert_refused(&r, 6, m.data, m.bytes, SHOAL_E_CORRUPT);
    struct rows none = rows_open(&s);
    struct image empty = image_of(none.table, 5); /* it has no key that tells its tablet */
    assert_refused(&r, 6, empty.data, empty.bytes, SHOAL_E_CORRUPT);
    free(empty.data);
    rows_close(&none);
    struct table_schema changed[5];
    for (int i = 0; i < 5; i++)
        changed[i] = other;
    changed[0].seed++;
    strcpy(changed[1].name, "others");
    changed[2].optimizer.lr *= 2;
    changed[3].optimizer.kind = OPT_FTRL;
    changed[4].zero_first = 1;
    for (int i = 0; i < 5; i++) {
        struct rows q = rows_open(&changed[i]);
        assert_refused(&q, 5, m.data, m.bytes, SHOAL_E_SCHEMA);
        rows_close(&q);
    }
    free(m.data);
    rows_close(&r);
}
END_TEST

/* Damage under a valid checksum, by a bug or an attacker, must be refused all the same. */
START_TEST(image_with_wrong_content_under_a_right_checksum_is_refused)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 3, 6);
    struct rows r = filled(&s);
    uint64_t digest = rows_digest(r.table), bytes = arena_bytes(r.arena);
    struct image m = image_of(r.table, 5);
    struct image_header h, lie;
    memcpy(&h, m.data, sizeof h);
    ck_assert(h.row_count > 10 && h.undo_count > 1);
    uint64_t *keys = (uint64_t *)(m.data + sizeof h), saved = keys[1];
    uint64_t *undo_keys = (uint64_t *)(m.data + m.bytes - 8 - h.undo_count * (8 + 12)),
             undo_saved = undo_keys[1];

    keys[1] = keys[0]; /* twice */
    image_seal(&m);
    assert_refused(&r, 5, m.data, m.bytes, SHOAL_E_CORRUPT);
    keys[1] = key_unmix(key_mix(saved) ^ (1ULL << 63)); /* a key of another tablet */
    image_seal(&m);
    assert_refused(&r, 5, m.data, m.bytes, SHOAL_E_CORRUPT);
    keys[1] = saved;
    memcpy(undo_keys + 1, undo_keys, 8); /* undo twice */
    image_seal(&m);
    assert_refused(&r, 5, m.data, m.bytes, SHOAL_E_CORRUPT);
    undo_keys[1] = key_unmix(key_mix(undo_saved) ^ 1); /* undo without a row */
    image_seal(&m);
    assert_refused(&r, 5, m.data, m.bytes, SHOAL_E_CORRUPT);
    undo_keys[1] = undo_saved;

    for (int i = 0; i < 6; i++) {
        lie = h;
        lie.row_count = i == 0   ? UINT64_MAX
                        : i == 1 ? h.row_count + 1
                        : i == 2 ? UINT64_MAX / 32
                                 : h.row_count;
        lie.undo_count = i == 3 ? 0 : i == 4 ? UINT64_MAX / 20 + 1 : h.undo_count;
        lie.undo_clock = i == 5 ? 0 : h.undo_clock;
        memcpy(m.data, &lie, sizeof lie);
        image_seal(&m);
        assert_refused(&r, 5, m.data, m.bytes, SHOAL_E_CORRUPT);
    }
    lie = h;
    lie.width = UINT32_MAX; /* lengths that would overflow in a product of 32 bits */
    lie.row_floats = UINT32_MAX;
    memcpy(m.data, &lie, sizeof lie);
    image_seal(&m);
    assert_refused(&r, 5, m.data, m.bytes, 0);

    memcpy(m.data, &h, sizeof h);
    image_seal(&m);
    ck_assert_int_eq(table_image_read(r.table, 5, m.data, m.bytes, NULL), 0);
    ck_assert_uint_eq(rows_digest(r.table), digest);
    ck_assert_uint_eq(arena_bytes(r.arena), bytes);
    free(m.data);
    rows_close(&r);
}
END_TEST

/* A check of an image tells more than that the image can be read. */
START_TEST(image_tells_what_it_has)
{
    struct table_schema s = rows_schema(OPT_SGD, 2, 0);
    struct rows a = rows_open(&s), b = rows_open(&s);
    struct table_image_found found;
    const uint64_t named = rows_key(9);
    uint64_t changed;
    struct err e = {0};
    rows_push_one(&a, rows_key(1), 1, 7);
    struct image m = image_of(a.table, 0);
    ck_assert_int_eq(table_image_check(b.table, 0, m.data, m.bytes, &found, &e), 0);
    ck_assert(found.rows == 1 && found.finite && found.bare);
    ck_assert_uint_eq(table_rows(b.table), 0); /* nothing has changed */
    float *weight = (float *)(void *)(m.data + sizeof(struct image_header) + sizeof(uint64_t));
    weight[1] = INFINITY;
    image_seal(&m);
    ck_assert_int_eq(table_image_check(b.table, 0, m.data, m.bytes, &found, &e), 0);
    ck_assert(found.rows == 1 && !found.finite && found.bad == rows_key(1));
    free(m.data);
    ck_assert_int_eq(table_keys(a.table, KEY_BLOCK, &named, 1, NULL, &changed), 0);
    m = image_of(a.table, 0);
    ck_assert_int_eq(table_image_check(b.table, 0, m.data, m.bytes, &found, &e), 0);
    ck_assert(found.finite && !found.bare);
    free(m.data);
    rows_close(&a);
    rows_close(&b);
}
END_TEST

START_TEST(image_that_is_assigned_brings_no_undo)
{
    struct table_schema s = rows_schema(OPT_ADAM, 4, 2);
    s.dense = 1;
    struct rows a = filled(&s), b = rows_open(&s);
    struct err e = {0};
    rows_push_one(&b, 12345, 1, 3); /* its undo goes, too */
    for (uint32_t t = 0; t < 4; t++) {
        struct image m = image_of(a.table, t);
        const struct image_header *h = (const void *)m.data;
        ck_assert_uint_gt(h->undo_count, 0);
        ck_assert_int_eq(table_image_assign(b.table, t, m.data, m.bytes, &e), 0);
        m.data[m.bytes / 2] ^= 1;
        ck_assert_int_eq(table_image_assign(b.table, t, m.data, m.bytes, &e), SHOAL_E_CHECKSUM);
        free(m.data);
        m = image_of(b.table, t);
        h = (const void *)m.data;
        ck_assert(h->undo_count == 0 && h->undo_clock == 0);
        free(m.data);
    }
    ck_assert_uint_eq(rows_digest(a.table), rows_digest(b.table));
    ck_assert_uint_eq(table_rows(a.table), table_rows(b.table));
    rows_close(&a);
    rows_close(&b);
}
END_TEST

START_TEST(image_of_a_later_version_is_refused_by_name)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 3, 6);
    struct rows r = filled(&s);
    struct image m = image_of(r.table, 5);
    struct err e = {0};
    struct image_header h;
    for (int later = 0; later < 2; later++) {
        memcpy(&h, m.data, sizeof h);
        h.version = later ? IMAGE_VERSION + 1 : IMAGE_VERSION - 1;
        memcpy(m.data, &h, sizeof h);
        assert_refused(&r, 5, m.data, m.bytes, SHOAL_E_CORRUPT); /* by its checksum it is damaged */
        image_seal(&m);
        assert_refused(&r, 5, m.data, m.bytes, SHOAL_E_VERSION);
        ck_assert_int_eq(table_image_read(r.table, 5, m.data, m.bytes, &e), SHOAL_E_VERSION);
        ck_assert_ptr_nonnull(
            strstr(e.text, later ? "has version 6, this Shoal reads 5: it was written by a later "
                                   "one; start that one"
                                 : "has version 4, this Shoal reads 5: it was written by a release "
                                   "before 0.2.0; start that one"));
    }
    free(m.data);
    rows_close(&r);
}
END_TEST

/* ---- a tablet's life ---- */

/* A schema with everything that a tablet can have beside its rows. Rows and undo have sizes that
 * keep all parts of an image aligned. */
static struct table_schema living(void)
{
    struct table_schema s = stats_schema(OPT_ROW_ADAGRAD, 2, 1);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 3;
    s.rules.admit_sketch = 256;
    s.rules.admit_waiting = 100;
    s.rules.age_every = DAY;
    s.rules.age_decay = 0.9f;
    s.rules.age_score = 0.2f;
    s.rules.age_capacity = 40;
    s.field_rule_count = 1;
    s.field_rule[0] = (struct field_rule){
        .field = 2, .has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_SCORE, .admit_threshold = 1};
    return s;
}

static void live(struct rows *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct rng random = rng_of(i, 1, 1);
        uint64_t key = key_make((uint32_t)(1 + rng_below(&random, 2)), rng_below(&random, 80));
        uint64_t other = key_make(1, rng_below(&random, 80)), changed;
        stats_push(r, key, 0.5f, (float)(1 + rng_below(&random, 3)), 0,
                   (struct stats_batch){
                       .time = FIRST_DAY + i * 600, .batch = i, .undo_clock = i / 10 + 1});
        if (i % 20 == 0)
            ck_assert_int_eq(table_keys(r->table, (enum key_action)rng_below(&random, 4), &other, 1,
                                        NULL, &changed),
                             0);
    }
}

START_TEST(image_brings_a_tablets_life_along)
{
    struct table_schema s = living();
    struct table_counts x, y;
    struct rows a = rows_open(&s);
    for (uint32_t round = 0; round < 12; round++) {
        live(&a, round * 300, round * 300 + 100 + round * 7);
        table_counts_get(a.table, &x);
        ck_assert_uint_gt(x.waiting, 10);
        ck_assert_uint_gt(table_rows(a.table), 10);
        struct rows b = stats_through_images(&a);
        ck_assert_uint_eq(rows_digest(a.table), rows_digest(b.table));
        live(&a, round * 300 + 100 + round * 7, round * 300 + 300);
        live(&b, round * 300 + 100 + round * 7, round * 300 + 300);
        ck_assert_uint_eq(rows_digest(a.table), rows_digest(b.table));
        table_counts_get(a.table, &x);
        table_counts_get(b.table, &y);
        ck_assert_uint_eq(x.waiting, y.waiting);
        for (uint32_t t = 0; t < 2; t++)
            ck_assert_uint_eq(table_image_bytes(a.table, t), table_image_bytes(b.table, t));
        rows_close(&b);
    }
    rows_close(&a);
}
END_TEST

/* The places of the parts of an image. */
struct parts {
    struct image_header *h;
    uint64_t *keys;
    struct waiting_key *young, *old;
    uint16_t *cells;
    struct named_key *names;
};

static struct parts parts_of(struct image *m)
{
    struct parts p = {.h = (struct image_header *)(void *)m->data};
    char *at = m->data + sizeof *p.h;
    p.keys = (uint64_t *)(void *)at;
    at += p.h->row_count * (8 + 4ul * p.h->row_floats) + p.h->undo_count * (8 + 4ul * p.h->width);
    p.young = (struct waiting_key *)(void *)at;
    p.old = p.young + p.h->young_count;
    p.cells = (uint16_t *)(void *)(p.old + p.h->old_count);
    p.names = (struct named_key *)(void *)(p.cells + 2 * p.h->sketch_cells);
    return p;
}

#define LIVES 20

/* Makes one wrong change; false: there is none with this number. */
static bool tell_lie(int which, struct parts p)
{
    uint64_t foreign = key_unmix(key_mix(p.young[0].key) ^ (1ULL << 63));
    switch (which) {
    case 0:
        p.young[1] = p.young[0]; /* twice */
        return true;
    case 1:
        p.old[0].key = p.young[0].key; /* in both */
        return true;
    case 2:
        p.young[0].key = p.keys[0]; /* the key has a row */
        return true;
    case 3:
        p.old[0].key = foreign;
        return true;
    case 4:
        p.young[0].show = -1;
        return true;
    case 5:
        p.young[0].click = -1;
        return true;
    case 6:
        p.young[0].show = p.young[0].click = 0;
        return true;
    case 7:
        memset(&p.old[0].show, 0xff, 4); /* not a number */
        return true;
    case 8:
        p.names[0].kind = 0;
        return true;
    case 9:
        p.names[0].kind = NAME_ALLOWED + 1;
        return true;
    case 10:
        p.names[0].zero = 1;
        return true;
    case 11:
        p.names[1].key = p.names[0].key;
        return true;
    case 12:
        p.names[0].key = foreign;
        return true;
    case 13: /* erased, with a row */
        p.names[0] = (struct named_key){p.keys[0], NAME_ERASED, 0};
        p.h->name_count = 1;
        return false;
    case 14:
        p.h->young_count++;
        return true;
    case 15:
        p.h->young_count--;
        p.h->old_count += 2;
        return true;
    case 16:
        p.h->name_count = UINT32_MAX;
        return true;
    case 17:
        p.h->sketch_cells = 128; /* not the table's; 8 more names make up for the length */
        p.h->name_count += 2 * 2 * 128 / 16;
        return true;
    case 18:
        p.h->cold_count = 1; /* its key would be behind the end */
        return true;
    default:
        p.h->sketch_cells = UINT32_MAX;
        return true;
    }
}

START_TEST(image_with_a_life_that_cannot_be_is_refused)
{
    struct table_schema s = living();
    struct rows r = rows_open(&s);
    live(&r, 0, 1500);
    struct image good = image_of(r.table, 0);
    struct parts p = parts_of(&good);
    ck_assert(p.h->row_count > 5 && p.h->young_count > 1 && p.h->old_count > 1 &&
              p.h->name_count > 1 && p.h->sketch_cells == 256 && p.h->clock > FIRST_DAY);
    uint64_t digest = rows_digest(r.table);
    for (int lie = 0; lie < LIVES; lie++) {
        struct image m = {malloc(good.bytes), good.bytes};
        memcpy(m.data, good.data, good.bytes);
        bool same_length = tell_lie(lie, parts_of(&m));
        if (!same_length) { /* the list cut to one name */
            m.bytes -= (p.h->name_count - 1) * sizeof(struct named_key);
            parts_of(&m).h->bytes = m.bytes;
        }
        image_seal(&m);
        struct err e = {0};
        ck_assert_msg(table_image_read(r.table, 0, m.data, m.bytes, &e) == SHOAL_E_CORRUPT,
                      "lie %d: %s", lie, e.text);
        ck_assert_uint_eq(rows_digest(r.table), digest);
        free(m.data);
    }
    image_seal(&good);
    ck_assert_int_eq(table_image_read(r.table, 0, good.data, good.bytes, NULL), 0);
    free(good.data);
    rows_close(&r);
}
END_TEST

/* Earlier releases wrote such images: a full generation took one more key when the bound was
 * lowered. */
START_TEST(image_with_one_waiting_key_more_is_read)
{
    struct table_schema s = living();
    struct table_counts counts;
    s.rules.admit_waiting = 2 * 51;
    s.field_rule[0].admit_threshold = 9;
    struct rows r = rows_open(&s);
    for (uint32_t i = 0, waiting = 0; waiting < 51; i++) {
        uint64_t key = key_make(2, i);
        if (key_tablet(key_mix(key), 1) != 0)
            continue;
        waiting++;
        stats_push(&r, key, 0.5f, 1, 0, (struct stats_batch){.time = FIRST_DAY, .batch = i});
    }
    struct image m = image_of(r.table, 0);
    ck_assert_uint_eq(parts_of(&m).h->old_count, 51);
    for (uint32_t half = 50; half >= 49; half--) {
        s.rules.admit_waiting = 2 * half;
        struct rows to = rows_open(&s);
        parts_of(&m).h->schema_digest = image_schema_digest(&s);
        image_seal(&m);
        ck_assert_int_eq(table_image_read(to.table, 0, m.data, m.bytes, NULL),
                         half == 50 ? 0 : SHOAL_E_CORRUPT);
        table_counts_get(to.table, &counts);
        ck_assert_uint_eq(counts.waiting, half == 50 ? 51 : 0);
        rows_close(&to);
    }
    free(m.data);
    rows_close(&r);
}
END_TEST

/* A table without these features accepts no image with them. */
/* Releases before allowed twice as many names: the image is read, and no names are added. */
START_TEST(image_with_more_names_than_a_tablet_gets_is_read)
{
    struct table_schema s = rows_schema(OPT_SGD, 1, 0);
    struct rows from = rows_open(&s), to = rows_open(&s);
    const size_t count = NAMED_MAX + 1;
    uint64_t *keys = malloc(count * sizeof *keys), changed;
    struct err e = {0};
    for (size_t i = 0; i < count; i++)
        keys[i] = rows_key(i);
    ck_assert_int_eq(table_keys(from.table, KEY_BLOCK, keys, count, NULL, &changed), 0);
    struct image m = image_of(from.table, 0);
    ck_assert_msg(table_image_read(to.table, 0, m.data, m.bytes, &e) == 0, "%s", e.text);
    ck_assert_str_eq(key_names_of(to.table, keys[count - 1]), "blocked");
    ck_assert(!table_keys_fit(to.table, 1));
    free(keys);
    free(m.data);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

START_TEST(image_with_a_life_is_refused_by_a_plain_table)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 3, 0);
    struct rows r = rows_open(&s);
    struct image m = image_of(r.table, 0);
    parts_of(&m).h->clock = 5;
    image_seal(&m);
    assert_refused(&r, 0, m.data, m.bytes, SHOAL_E_CORRUPT);
    parts_of(&m).h->clock = 0;
    parts_of(&m).h->sketch_keys[1] = 5;
    image_seal(&m);
    assert_refused(&r, 0, m.data, m.bytes, SHOAL_E_CORRUPT);
    free(m.data);
    rows_close(&r);
}
END_TEST

/* Images and manifests contain the digest: with another digest every row on disk would belong to
 * another table. */
START_TEST(digest_of_a_schema_is_the_same_in_every_release)
{
    static const uint64_t is[] = {5405386256712724007u, 6157218294289267334u,
                                  14400825913188628433u};
    struct table_schema s = rows_schema(OPT_ADAGRAD, 5, 2);
    if (_i == 1)
        s.values = VALUES_FP16;
    if (_i == 2) {
        s.rules.norm_max = 2.5f;
        s.field_rule_count = 1;
        s.field_rule[0] = (struct field_rule){.field = 7, .has = FIELD_HAS_TTL, .ttl = 60};
    }
    ck_assert_uint_eq(image_schema_digest(&s), is[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image");
    TCase *c = tcase_create("image");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, image_read_gives_back_rows_and_undo, 0, 5);
    tcase_add_test(c, image_of_an_empty_tablet_empties);
    tcase_add_test(c, image_flipped_in_any_bit_is_refused);
    tcase_add_test(c, image_cut_short_or_lengthened_is_refused);
    tcase_add_test(c, image_of_another_tablet_or_schema_is_refused);
    tcase_add_test(c, image_with_wrong_content_under_a_right_checksum_is_refused);
    tcase_add_test(c, image_tells_what_it_has);
    tcase_add_test(c, image_that_is_assigned_brings_no_undo);
    tcase_add_test(c, image_of_a_later_version_is_refused_by_name);
    tcase_add_test(c, image_brings_a_tablets_life_along);
    tcase_add_test(c, image_with_a_life_that_cannot_be_is_refused);
    tcase_add_test(c, image_with_one_waiting_key_more_is_read);
    tcase_add_test(c, image_with_more_names_than_a_tablet_gets_is_read);
    tcase_add_test(c, image_with_a_life_is_refused_by_a_plain_table);
    tcase_add_loop_test(c, digest_of_a_schema_is_the_same_in_every_release, 0, 3);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
