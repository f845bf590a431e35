/* part_request.c: the pull and the push of all measurements here. */
#include "proto/wire/wire.h"
#include "tests/bench/part.h"

struct msg *part_request(uint64_t id, const uint64_t *keys, uint32_t count,
                         const struct part_push *push)
{
    struct wire w = {.id = id, .type = WIRE_TYPE_PULL};
    w.u.PULL = (struct wire_PULL){.run = 1,
                                  .lane = UINT32_MAX,
                                  .bound = WIRE_BOUND_ASYNC,
                                  .key_count = count,
                                  .map_epoch = 1};
    if (push != NULL) {
        w.type = WIRE_TYPE_PUSH;
        w.u.PUSH = (struct wire_PUSH){.run = 1,
                                      .generation = 1,
                                      .from = push->batch,
                                      .to = push->batch + 1,
                                      .tablet_first = push->tablet_first,
                                      .tablet_count = push->tablet_count,
                                      .lr_scale = 1,
                                      .key_count = count,
                                      .map_epoch = 1};
    }
    struct msg *m = wire_encode(&w);
    if (m == NULL ||
        msg_add_borrowed(m, (void *)(uintptr_t)keys, sizeof *keys * count, NULL, NULL) != 0 ||
        (push != NULL &&
         (msg_add_borrowed(m, (void *)(uintptr_t)push->gradients,
                           sizeof *push->gradients * count * PART_WIDTH, NULL, NULL) != 0 ||
          msg_add_borrowed(m, NULL, 0, NULL, NULL) != 0))) {
        msg_free(m);
        return NULL;
    }
    return m;
}
