/* index.c: makes, keeps and finds indexes; the order of an epoch.
 *
 * 1. A kept index is `struct index_file`, then its chunks, all little-endian as in memory; each
 *    part has a checksum. [static] [test: index_that_is_damaged_is_made_again]
 * 2. Its name has the hash of path, size and time of every file and of the rows' form, so an index
 *    of other files is not found. [test: index_is_made_again_when_the_file_changed]
 * 3. A found index is used only if both checksums match and its numbers are consistent; else it is
 *    made again. [test: index_that_is_damaged_is_made_again]
 *
 * The order is a permutation of chunk numbers by a Feistel network over the next power of two, with
 * cycle walking.
 * 4. Every round is a bijection of [0, 2^bits), whatever the round function does, so the network is
 *    one too. [test: order_is_a_bijection_for_every_small_size]
 * 5. A value outside [0, chunks) passes through the network again. Its cycle contains the start,
 *    which is inside, so the walk ends, and the result is a bijection of [0, chunks). At most two
 *    walks are expected, as 2^bits <= 2 chunks. [assert: index_draw]
 *    [test: order_is_a_bijection_for_large_sizes]
 * 6. The number of rounds is even, so the two halves, whose widths differ by a bit when bits is
 *    odd, end with their first widths. [static] */
#include "worker/data/index.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNKS_START 4096u

struct index_file {
    char magic[8];
    uint64_t identity;
    uint64_t rows;
    uint64_t bytes;
    uint32_t chunk_rows;
    uint32_t chunks;
    uint64_t chunk_sum; /* XXH3 of the chunks, seeded with that of the times */
    uint64_t sum;       /* XXH3 of the members above */
};
_Static_assert(sizeof(struct index_file) == 56, "index_file is a disk format"); /* 1 */
/* `chunks` times of 4 bytes follow the chunks when there is a clock */
#define INDEX_MAGIC "SHOALIX1"

static uint64_t digest_of(const struct index *x)
{
    uint64_t digest = rng_mix(x->rows);
    for (uint32_t i = 0; i < x->chunks; i++)
        digest = rng_mix(digest ^ x->chunk[i].sum) + i;
    return digest;
}

/* Merges adjacent chunks in pairs. */
static void join(struct index *x)
{
    SHOAL_ASSERT(x->chunks % 2 == 0);
    for (uint32_t i = 0; i < x->chunks / 2; i++) {
        x->chunk[i] = x->chunk[2 * i];
        x->chunk[i].sum += x->chunk[2 * i + 1].sum;
        if (x->time != NULL)
            x->time[i] = x->time[2 * i];
    }
    x->chunks /= 2;
    x->chunk_rows *= 2;
}

static uint32_t chunks_max(const struct index_clock *clock)
{
    if (clock != NULL)
        return clock->chunks;

    return INDEX_CHUNKS_MAX;
}

static int room_for_chunk(struct index *x, const struct index_clock *clock, uint32_t *capacity)
{
    if (x->chunks < *capacity && x->chunks < chunks_max(clock))
        return 0;
    SHOAL_ASSERT(x->chunks <= chunks_max(clock));
    if (x->chunks == chunks_max(clock)) {
        join(x);
        return 0;
    }
    uint32_t times = *capacity;
    int rc = 0;
    if (clock != NULL)
        rc = array_room(&x->time, x->chunks, &times, CHUNKS_START);
    if (rc != 0)
        return rc;

    return array_room(&x->chunk, x->chunks, capacity, CHUNKS_START);
}

void index_times_lead(struct index *x)
{
    uint32_t known = 0;
    while (x->time != NULL && known < x->chunks && x->time[known] == 0)
        known++;
    for (uint32_t i = 0; x->time != NULL && known < x->chunks && i < known; i++)
        x->time[i] = x->time[known];
}

/* A row without a time gets that of the chunk before it. */
static void time_put(struct index *x, const struct index_clock *clock, struct line *line)
{
    uint32_t time = 0, at = x->chunks - 1;
    if (line->fault == NULL)
        time = clock->time(clock->context, line);
    if (time != 0)
        x->time[at] = time;
    else if (at > 0)
        x->time[at] = x->time[at - 1];
    else
        x->time[at] = 0;
}

static int make(const struct source *s, const struct row_form *form,
                const struct index_clock *clock, struct index *x, struct err *e)
{
    struct lines lines;
    struct line line;
    uint32_t capacity = 0;
    int rc = lines_init(&lines, e);
    if (rc != 0)
        return rc;
    *x = (struct index){.bytes = s->bytes, .chunk_rows = 1};
    lines_start(&lines, s, *form, 0, s->bytes, 0);
    while (rc == 0 && (rc = lines_next(&lines, &line, e)) == 0) {
        bool first = x->rows % x->chunk_rows == 0;
        if (first) {
            rc = room_for_chunk(x, clock, &capacity);
            if (rc != 0)
                break;
            x->chunk[x->chunks++] = (struct index_chunk){line.at, 0, line.number - 1};
        }
        x->chunk[x->chunks - 1].sum += index_row_sum(x->rows, &line);
        if (first && clock != NULL) /* last: the clock may change the line */
            time_put(x, clock, &line);
        x->rows++;
    }
    lines_free(&lines);
    index_times_lead(x);
    SHOAL_ASSERT(rc != SHOAL_E_END || x->chunks == (x->rows + x->chunk_rows - 1) / x->chunk_rows);
    if (rc == SHOAL_E_NOMEM)
        err_set(e, rc, "no memory for the index of %s; free some", s->file[0].name);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

static void name_of(const struct source *s, const struct row_form *form,
                    const struct index_clock *clock, uint64_t *group, uint64_t *identity)
{
    uint64_t times = 0;
    if (clock != NULL)
        times = rng_mix(clock->identity ^ clock->chunks) | 1;
    *group = rng_mix(s->count) ^ times;
    *identity = rng_mix(framing_hash(form)) ^ times;
    for (uint32_t i = 0; i < s->count; i++) {
        *group = rng_mix(*group ^ s->file[i].group) + 1;
        *identity = rng_mix(*identity ^ s->file[i].identity) + 1;
    }
}

static int read_all(int fd, void *to, size_t bytes)
{
    char *at = to;
    while (bytes > 0) {
        ssize_t n = read(fd, at, bytes);
        if (n <= 0)
            return SHOAL_E_CORRUPT;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int chunks_check(const struct index *x)
{
    uint64_t before = 0;
    for (uint32_t i = 0; i < x->chunks; i++) {
        if (x->chunk[i].at >= x->bytes || (i > 0 && x->chunk[i].at <= before))
            return SHOAL_E_CORRUPT;
        before = x->chunk[i].at;
    }
    return 0;
}

static uint64_t chunks_sum(const struct index *x)
{
    uint64_t times = 0;
    if (x->time != NULL)
        times = hash_bytes(x->time, sizeof x->time[0] * x->chunks, 0);
    return hash_bytes(x->chunk, sizeof x->chunk[0] * x->chunks, times);
}

/* 0, or CORRUPT, or NOMEM. */
static int load(int fd, const struct source *s, const struct index_clock *clock, uint64_t identity,
                struct index *x)
{
    bool timed = clock != NULL;
    struct index_file f;
    struct stat st;
    if (read_all(fd, &f, sizeof f) != 0 || memcmp(f.magic, INDEX_MAGIC, sizeof f.magic) != 0 ||
        f.sum != hash_bytes(&f, offsetof(struct index_file, sum), 0) || f.identity != identity ||
        f.bytes != s->bytes)
        return SHOAL_E_CORRUPT;
    if (f.chunks > chunks_max(clock) || f.chunk_rows == 0 ||
        (f.chunk_rows & (f.chunk_rows - 1)) != 0 || f.rows > f.bytes ||
        f.chunks != (f.rows + f.chunk_rows - 1) / f.chunk_rows)
        return SHOAL_E_CORRUPT;
    size_t bytes = sizeof x->chunk[0] * f.chunks, times = timed ? sizeof x->time[0] * f.chunks : 0;
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size != sizeof f + bytes + times)
        return SHOAL_E_CORRUPT;
    *x = (struct index){.rows = f.rows,
                        .bytes = f.bytes,
                        .chunk_rows = f.chunk_rows,
                        .chunks = f.chunks,
                        .chunk = malloc(bytes + 1),
                        .time = timed ? malloc(times + 1) : NULL};
    bool room = x->chunk != NULL && (!timed || x->time != NULL);
    if (room && read_all(fd, x->chunk, bytes) == 0 &&
        (!timed || read_all(fd, x->time, times) == 0) && chunks_sum(x) == f.chunk_sum &&
        chunks_check(x) == 0)
        return 0;
    index_close(x);
    if (!room)
        return SHOAL_E_NOMEM;
    return SHOAL_E_CORRUPT;
}

static int keep(const struct index *x, const struct cache *cache, uint64_t group, uint64_t identity,
                struct err *e)
{
    size_t bytes = sizeof x->chunk[0] * x->chunks;
    struct index_file f = {.identity = identity,
                           .rows = x->rows,
                           .bytes = x->bytes,
                           .chunk_rows = x->chunk_rows,
                           .chunks = x->chunks};
    SHOAL_ASSERT(x->rows <= x->bytes);
    memcpy(f.magic, INDEX_MAGIC, sizeof f.magic);
    f.chunk_sum = chunks_sum(x);
    f.sum = hash_bytes(&f, offsetof(struct index_file, sum), 0);
    struct cache_file file;
    int rc = cache_create(cache, group, identity, "index", &file, e);
    if (rc != 0)
        return rc;
    rc = cache_write(cache, file.fd, &f, sizeof f, e);
    if (rc == 0)
        rc = cache_write(cache, file.fd, x->chunk, bytes, e);
    if (rc == 0 && x->time != NULL)
        rc = cache_write(cache, file.fd, x->time, sizeof x->time[0] * x->chunks, e);
    if (rc == 0)
        return cache_keep(&file, NULL, e);
    cache_drop(&file);
    return rc;
}

int index_open(const struct source *s, const struct row_form *form, const struct index_clock *clock,
               const struct cache *cache, struct index *out, struct err *e)
{
    uint64_t group, identity;
    bool stream = cache == NULL;
    *out = (struct index){0};
    for (uint32_t i = 0; i < s->count; i++)
        stream |= s->file[i].stream;
    name_of(s, form, clock, &group, &identity);
    int fd = -1;
    if (!stream)
        fd = cache_find(cache, group, identity, "index");
    if (fd >= 0) {
        int rc = load(fd, s, clock, identity, out);
        close(fd);
        if (rc == 0) {
            out->digest = digest_of(out);
            return 0;
        }
        if (rc == SHOAL_E_CORRUPT)
            log_warn("the kept index of %s is damaged; making it again", s->file[0].name);
    }
    int rc = make(s, form, clock, out, e);
    if (rc != 0) {
        index_close(out);
        return rc;
    }
    out->digest = digest_of(out);
    struct err why = {0};
    if (!stream && keep(out, cache, group, identity, &why) != 0)
        log_warn("the index of %s is not kept: %s", s->file[0].name, why.text);
    return 0;
}

void index_close(struct index *x)
{
    free(x->chunk);
    free(x->time);
    *x = (struct index){0};
}

/* ---- the order of an epoch ------------------------------------------------------------------- */

_Static_assert(INDEX_ROUNDS % 2 == 0, "the sides end as they began"); /* 6 */

static uint64_t feistel(const struct index_draw *d, uint64_t value)
{
    unsigned low_bits = d->bits - d->bits / 2, high_bits = d->bits / 2;
    uint64_t low = value & ((1ULL << low_bits) - 1), high = value >> low_bits;
    for (int r = 0; r < INDEX_ROUNDS; r++) {
        uint64_t next = (high ^ rng_mix(low ^ d->key[r])) & ((1ULL << high_bits) - 1);
        high = low;
        low = next;
        unsigned swap = low_bits;
        low_bits = high_bits;
        high_bits = swap;
    }
    return high << low_bits | low;
}

struct index_draw index_draw(uint64_t seed, uint32_t epoch, uint64_t chunks)
{
    SHOAL_ASSERT(chunks > 0 && chunks <= 1ULL << 62);
    struct index_draw d = {.chunks = chunks};
    struct rng rng = rng_of(seed, epoch, chunks);
    if (chunks > 1)
        d.bits = 64u - (unsigned)__builtin_clzll(chunks - 1);
    if (d.bits < 2)
        d.bits = 2; /* both halves need a bit, otherwise a round could change nothing */
    for (int r = 0; r < INDEX_ROUNDS; r++)
        d.key[r] = rng_next(&rng);
    SHOAL_ASSERT(chunks <= 1ULL << d.bits && (1ULL << d.bits <= 2 * chunks || chunks == 1)); /* 5 */
    return d;
}

uint64_t index_drawn(const struct index_draw *d, uint64_t position)
{
    uint64_t value = position;
    SHOAL_ASSERT(position < d->chunks);
    if (d->chunks == 1)
        return 0;
    do {
        value = feistel(d, value);
        SHOAL_ASSERT(value >> d->bits == 0);
    } while (value >= d->chunks);
    return value;
}

uint64_t index_order(uint64_t seed, uint32_t epoch, uint64_t chunks, uint64_t position)
{
    struct index_draw d = index_draw(seed, epoch, chunks);
    return index_drawn(&d, position);
}
