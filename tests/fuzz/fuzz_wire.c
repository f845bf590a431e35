/* fuzz_wire.c: any bytes as a message: two length bytes a frame, then the frames. */
#include "proto/wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct msg *m = msg_new();
    struct wire w;
    struct err e;
    while (size >= 2 && m->frame_count < LIMIT_FRAMES) {
        size_t want = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (want > size)
            want = size;
        void *frame = msg_add(m, want);
        if (frame == NULL)
            break;
        memcpy(frame, data, want);
        data += want;
        size -= want;
    }
    if (wire_decode(m, &w, &e) == 0) {
        struct msg *again = wire_encode(&w); /* a decoded message can be encoded again */
        if (again == NULL)
            abort();
        msg_free(again);
    }
    msg_free(m);
    return 0;
}
