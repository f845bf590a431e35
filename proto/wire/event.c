/* event.c: packs records and their checksums. */
#include "proto/wire/event.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

#include "tensorboard.pb-c.h"

#include <stdio.h>

enum { HEAD_BYTES = 12, FOOT_BYTES = 4 };

static void put_u32(unsigned char *to, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(x >> 8 * i);
}

static uint32_t masked(const void *data, size_t bytes)
{
    uint32_t c = hash_crc32c(data, bytes);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static size_t event_frame(const Tb__Event *event, unsigned char *out)
{
    size_t bytes = tb__event__get_packed_size(event);
    SHOAL_ASSERT(HEAD_BYTES + bytes + FOOT_BYTES <= EVENT_BYTES_MAX);
    put_u32(out, (uint32_t)bytes);
    put_u32(out + 4, 0);
    put_u32(out + 8, masked(out, 8));
    (void)tb__event__pack(event, out + HEAD_BYTES);
    put_u32(out + HEAD_BYTES + bytes, masked(out + HEAD_BYTES, bytes));
    return HEAD_BYTES + bytes + FOOT_BYTES;
}

size_t event_version(double wall_s, unsigned char *out)
{
    Tb__Event event = TB__EVENT__INIT;
    event.has_wall_time = 1;
    event.wall_time = wall_s;
    event.file_version = (char *)(uintptr_t) "brain.Event:2";
    return event_frame(&event, out);
}

static void tag_copy(char *to, const char *tag)
{
    text_copy(to, EVENT_TAG_MAX, tag);
    for (char *p = to; *p != '\0'; p++)
        if (*p < 0x20 || *p > 0x7e)
            *p = '_';
}

size_t event_scalars(double wall_s, int64_t step, const struct event_scalar *scalar, uint32_t count,
                     unsigned char *out)
{
    Tb__Event event = TB__EVENT__INIT;
    Tb__Summary summary = TB__SUMMARY__INIT;
    Tb__Value value[EVENT_SCALARS_MAX], *list[EVENT_SCALARS_MAX];
    char tag[EVENT_SCALARS_MAX][EVENT_TAG_MAX];
    SHOAL_ASSERT(count <= EVENT_SCALARS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        tag_copy(tag[i], scalar[i].tag);
        tb__value__init(&value[i]);
        value[i].tag = tag[i];
        value[i].has_simple_value = 1;
        value[i].simple_value = (float)scalar[i].value;
        list[i] = &value[i];
    }
    summary.n_value = count;
    summary.value = list;
    event.has_wall_time = event.has_step = 1;
    event.wall_time = wall_s;
    event.step = step;
    event.summary = &summary;
    return event_frame(&event, out);
}
