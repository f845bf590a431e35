/* stream.c: a stream's life, failure, scratch memory and recordings. */
#include "dense/cuda/stream.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SCRATCH_ALIGN 256u

struct cuda_counters cuda_counters;
bool cuda_products_only, cuda_exact;

void shoal_cuda_products_only(bool on)
{
    cuda_products_only = on;
}

const struct cuda_counters *shoal_cuda_counters(void)
{
    return &cuda_counters;
}

void cuda_counter_add(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- life ------------------------------------------------------------------------------------ */

int stream_new(const struct stream_spec *spec, struct stream **out, struct err *e)
{
    struct stream *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "a stream of the device: out of memory");
    s->spec = *spec;
    int rc = device_open(s, e);
    if (rc != 0) {
        stream_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

static void recordings_drop(struct stream *s)
{
    for (uint32_t i = 0; i < STREAM_RECORDINGS; i++) {
        if (s->recording[i].recording != NULL)
            device_recording_free(s, s->recording[i].recording);
        s->recording[i] = (struct stream_recording){.last = 0};
    }
}

void stream_free(struct stream *s)
{
    if (s->device != NULL) {
        recordings_drop(s);
        for (uint32_t part = 0; part < 3; part++)
            for (uint32_t i = 0; i < s->scratch[part].count; i++)
                device_free(s, s->scratch[part].block[i]);
        cuda_choices_free(s);
        device_close(s);
    }
    free(s);
}

struct err *stream_error(struct stream *s)
{
    if (s->recorded != NULL)
        return &s->spoiled;
    return &s->error;
}

void stream_fail(struct stream *s, int code, const char *format, ...)
{
    struct err *e = stream_error(s);
    va_list arguments;
    if (e->code != 0)
        return;
    e->code = code;
    va_start(arguments, format);
    (void)vsnprintf(e->text, sizeof e->text, format, arguments);
    va_end(arguments);
}

int stream_finish(struct stream *s, struct err *e)
{
    device_wait(s);
    if (s->error.code != 0 && e != NULL)
        *e = s->error;
    return s->error.code;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *stream_alloc(struct stream *s, size_t bytes)
{
    return device_alloc(s, bytes);
}

void stream_release(struct stream *s, void *p)
{
    device_free(s, p);
}

/* Adds a block of at least `bytes`. Pieces handed out before stay where they are. */
static bool scratch_grow(struct stream *s, struct scratch *c, size_t bytes)
{
    size_t room = bytes;
    if (!cuda_exact)
        room = MAX(bytes, SCRATCH_BLOCK_BYTES);
    if (s->recorded != NULL || c->count == SCRATCH_BLOCKS) {
        stream_fail(s, SHOAL_E_INTERNAL,
                    "scratch of %zu bytes: %s; this is a bug in Shoal, please report it", bytes,
                    s->recorded != NULL ? "a recorded section asks for more than when it was queued"
                                        : "too many blocks");
        return false;
    }
    c->block[c->count] = device_alloc(s, room);
    if (c->block[c->count] == NULL) {
        stream_fail(
            s, SHOAL_E_NOMEM,
            "no memory on the device for %zu bytes of a step's work; make train.batch smaller",
            room);
        return false;
    }
    c->bytes[c->count++] = room;
    return true;
}

/* With cuda_exact: frees all pieces but the first `count`. */
static void scratch_drop(struct stream *s, struct scratch *c, uint32_t count)
{
    for (; cuda_exact && c->count > count; c->count--)
        device_free(s, c->block[c->count - 1]);
}

/* Resets scratch. When growing batches have left many blocks, they are joined into one. */
static void scratch_begin(struct stream *s, struct scratch *c)
{
    size_t bytes = 0;
    scratch_drop(s, c, 0);
    c->current = 0;
    c->used = 0;
    if (c->count < SCRATCH_BLOCKS_JOINED || stream_failed(s))
        return;
    if (c != &s->scratch[0])
        recordings_drop(s);
    for (; c->count > 0; c->count--) {
        bytes += c->bytes[c->count - 1];
        device_free(s, c->block[c->count - 1]);
    }
    (void)scratch_grow(s, c, bytes);
}

struct scratch_mark cuda_scratch_mark(const struct stream *s)
{
    const struct scratch *c = &s->scratch[s->section];
    struct scratch_mark mark;
    mark.block = c->current;
    mark.used = c->used;
    return mark;
}

void cuda_scratch_return(struct stream *s, struct scratch_mark mark)
{
    struct scratch *c = &s->scratch[s->section];
    if (cuda_products_only) /* the operands in it are read again */
        return;
    /* a mark is returned in the section where it was taken, the latest mark first */
    SHOAL_ASSERT(mark.block < c->current || (mark.block == c->current && mark.used <= c->used));
    scratch_drop(s, c, mark.block);
    c->current = mark.block;
    c->used = mark.used;
}

static void *scratch_take(struct stream *s, struct scratch *c, size_t bytes)
{
    if (stream_failed(s))
        return NULL;
    if (cuda_exact && !scratch_grow(s, c, bytes))
        return NULL;
    if (cuda_exact)
        return c->block[c->current++];
    bytes = (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    while (c->current == c->count || c->bytes[c->current] - c->used < bytes) {
        if (c->current == c->count) {
            if (!scratch_grow(s, c, bytes))
                return NULL;
        } else {
            c->current++;
            c->used = 0;
        }
    }
    void *p = (char *)c->block[c->current] + c->used;
    c->used += bytes;
    return p;
}

void *cuda_scratch(struct stream *s, size_t bytes)
{
    return scratch_take(s, &s->scratch[s->section], bytes);
}

void *stream_keep(struct stream *s, const float *x, uint32_t rows, uint32_t columns, uint32_t ld,
                  size_t bytes, uint32_t ready_ld)
{
    if (!s->section || s->kept_count == KEPT_MAX)
        return NULL;
    void *ready = scratch_take(s, &s->scratch[2], bytes);
    if (ready != NULL)
        s->kept[s->kept_count++] = (struct kept_operand){x, rows, columns, ld, ready, ready_ld};
    return ready;
}

const struct kept_operand *stream_kept(const struct stream *s, const float *x, uint32_t rows,
                                       uint32_t columns, uint32_t ld)
{
    for (uint32_t i = s->kept_count; s->section && i-- > 0;)
        if (s->kept[i].x == x && s->kept[i].rows == rows && s->kept[i].columns == columns &&
            s->kept[i].ld == ld)
            return &s->kept[i];
    return NULL;
}

/* Resets a section's scratch: no operand of the section before is kept. */
static void section_scratch_begin(struct stream *s)
{
    scratch_begin(s, &s->scratch[1]);
    scratch_begin(s, &s->scratch[2]);
    s->kept_count = 0;
}

void stream_batch_begin(struct stream *s)
{
    scratch_begin(s, &s->scratch[0]);
    s->sorted = (struct sorted_values){.count = 0};
}

void cuda_zero(struct stream *s, void *to, size_t bytes)
{
    if (bytes > 0 && !cuda_products_only)
        device_zero(s, to, bytes);
}

void cuda_copy(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && !cuda_products_only)
        device_copy(s, to, from, bytes);
}

void kernel_queue(struct stream *s, const char *name, kernel_function function, size_t n,
                  const void *args, size_t bytes)
{
    if (n > 0 && (!cuda_products_only || s->operand))
        device_launch(s, name, function, n, args, bytes);
}

/* ---- recordings ------------------------------------------------------------------------------ */

/* The entry of this number: its own, a free one, or the least recently used one. */
static struct stream_recording *recording_place(struct stream *s, uint64_t number)
{
    struct stream_recording *place = &s->recording[0];
    for (uint32_t i = 0; i < STREAM_RECORDINGS; i++) {
        struct stream_recording *r = &s->recording[i];
        if (r->last > 0 && r->number == number)
            return r;
        if (r->last < place->last)
            place = r;
    }
    if (place->recording != NULL)
        device_recording_free(s, place->recording);
    *place = (struct stream_recording){.number = number};
    return place;
}

bool stream_graph_begin(struct stream *s, uint64_t number)
{
    SHOAL_ASSERT(!s->section && s->recorded == NULL); /* sections do not nest */
    if (cuda_exact || number == 0) {
        section_scratch_begin(s);
        s->section = true;
        return true;
    }
    if (cuda_products_only)
        number = ~number; /* these recordings are kept apart */
    /* before the entry is looked up: this may drop recordings */
    section_scratch_begin(s);
    struct stream_recording *r = recording_place(s, number);
    bool seen = r->last > 0;

    r->last = ++s->uses;
    s->section = true;
    if (r->recording != NULL) {
        s->section = false;
        device_play(s, r->recording);
        cuda_counter_add(&cuda_counters.plays);
        return false;
    }
    if (seen && !stream_failed(s) && r->tries < RECORDING_TRIES) {
        r->tries++;
        s->recorded = r;
        device_record_begin(s);
    }
    return true;
}

/* Ends the recording after success or failure. true: nothing of the section has run. */
static bool recording_end(struct stream *s)
{
    struct stream_recording *r = s->recorded;
    r->recording = device_record_end(s);
    s->recorded = NULL;
    s->spoiled = (struct err){.code = 0};
    if (r->recording == NULL) {
        cuda_counter_add(&cuda_counters.spoiled);
        return !stream_failed(s);
    }
    cuda_counter_add(&cuda_counters.recordings);
    device_play(s, r->recording);
    return false;
}

bool stream_graph_end(struct stream *s)
{
    bool again = s->recorded != NULL && recording_end(s);
    if (again) {
        section_scratch_begin(s);
    } else {
        scratch_drop(s, &s->scratch[1], 0);
        scratch_drop(s, &s->scratch[2], 0);
    }
    s->section = again;
    return again;
}
