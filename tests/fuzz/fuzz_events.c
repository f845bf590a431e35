/* fuzz_events.c: any bytes as an event file: as they are, or with valid checksums (first byte, bit
 * 0). An accepted file keeps to the limits and could come from text; any other is refused with a
 * message. */
#include "tests/fuzz/fuzz_file.h"

#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "worker/data/events_inner.h"

#include <math.h>
#include <stddef.h>

static void block_mend(uint8_t *file, uint64_t end, uint8_t *entry)
{
    struct events_entry x;
    struct events_block_head h;
    memcpy(&x, entry, sizeof x);
    if (x.at > end || end - x.at < sizeof h)
        return;
    memcpy(&h, file + x.at, sizeof h);
    uint64_t room = end - x.at - sizeof h;
    if ((uint64_t)h.plain + h.packed > room)
        return;
    const uint8_t *body = file + x.at + sizeof h;
    h.sum = x.sum = events_block_sum(&h, body, body + h.plain);
    memcpy(file + x.at, &h, sizeof h);
    memcpy(entry, &x, sizeof x);
}

static void file_mend(uint8_t *at, size_t size)
{
    struct events_head head;
    struct events_end end;
    if (size < sizeof head + sizeof end)
        return;
    memcpy(&head, at, sizeof head);
    memcpy(&end, at + size - sizeof end, sizeof end);
    uint64_t room = size - sizeof head - sizeof end;
    if (head.bytes > room || end.blocks > (room - head.bytes) / sizeof(struct events_entry))
        return;
    memcpy(head.magic, EVENTS_MAGIC, sizeof head.magic);
    memcpy(end.magic, EVENTS_END_MAGIC, sizeof end.magic);
    head.sum = hash_bytes(at + sizeof head, head.bytes, 0);
    size_t bytes = (size_t)end.blocks * sizeof(struct events_entry),
           index = size - sizeof end - bytes;
    for (uint64_t i = 0; i < end.blocks; i++)
        block_mend(at, index, at + index + i * sizeof(struct events_entry));
    end.index_sum = hash_bytes(at + index, bytes, head.sum);
    end.sum = hash_bytes(&end, offsetof(struct events_end, sum), 0);
    memcpy(at, &head, sizeof head);
    memcpy(at + size - sizeof end, &end, sizeof end);
}

static void row_check(const struct columns *c, const struct slice_layout *l,
                      const struct slice_row *r)
{
    uint32_t number = 0, field = 0, key = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct columns_one *of = &c->one[i];
        if (of->kind == COLUMNS_NUMBER)
            SHOAL_ASSERT(isfinite(r->numeric[number++]));
        if (of->kind == COLUMNS_WEIGHT)
            SHOAL_ASSERT(isfinite(r->weight) && r->weight >= 0);
        if (of->kind != COLUMNS_FIELD)
            continue;
        uint32_t values = l->multi ? r->count[field] : 1;
        SHOAL_ASSERT(of->multi || values == 1);
        for (uint32_t k = 0; k < values; k++, key++) {
            SHOAL_ASSERT(key_field(r->key[key]) == of->field);
            SHOAL_ASSERT(!l->weighted || isfinite(r->value_weight[key]));
            SHOAL_ASSERT(!l->weighted || of->weighted || r->value_weight[key] == 1.0f);
        }
        field++;
    }
    SHOAL_ASSERT(key == r->keys);
}

static void slice_check(const struct columns *c, const struct slice *s)
{
    struct slice_row row;
    uint32_t bad = 0;
    SHOAL_ASSERT(s->rows > 0 && s->rows <= SLICE_ROWS_MAX);
    for (uint32_t i = 0; i < s->rows; i++) {
        SHOAL_ASSERT(slice_row(s, i, &row) == 0);
        if (row.where == NULL)
            row_check(c, s->layout, &row);
        else
            SHOAL_ASSERT(strlen(row.where) < SLICE_WHERE);
        bad += row.where != NULL;
    }
    SHOAL_ASSERT(bad == s->bad_rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[LIMIT_PATH];
    struct events v;
    struct events_room room = {0};
    struct slice slice = {0};
    struct err e = {0};
    (void)snprintf(path, sizeof path, "%s/a.events", fuzz_dir());
    bool mend = (fuzz_mode(&data, &size) & 1) != 0;
    uint8_t *copy = fuzz_copy(data, size);
    if (mend)
        file_mend(copy, size);
    fuzz_file(path, copy, size);
    free(copy);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    SHOAL_ASSERT(fd >= 0);
    if (events_open(fd, path, &v, &e) == 0) {
        const struct slice_layout layout = slice_layout_of(&v.columns);
        const struct strips_wanted all = {.columns = &v.columns, .layout = &layout};
        for (uint32_t i = 0; i < v.blocks && e.code == 0; i++)
            if (events_read(&v, i, &all, &room, &slice, &e) == 0)
                slice_check(&v.columns, &slice);
        events_close(&v);
    }
    SHOAL_ASSERT(e.code == 0 || e.text[0] != '\0');
    slice_free(&slice);
    events_room_free(&room);
    close(fd);
    return 0;
}
