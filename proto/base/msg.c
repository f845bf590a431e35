/* msg.c: messages and the pool behind their frames.
 *
 * The pool keeps released frames in size classes (powers of two and the halves between, 64 B to
 * LIMIT_FRAME_BYTES) so that a warm hot path never calls malloc: fresh memory costs a page fault
 * every 4 KiB. Each class is a stack under its own lock, held for a few instructions: ZeroMQ's I/O
 * thread releases frames that the loop took. Each class has a bound in bytes, and msg_keep bounds
 * all together. */
#include "proto/base/msg.h"
#include "proto/base/assert.h"
#include "proto/base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_COUNT = 40, CLASS_KEEP_BYTES = 64 << 20, CLASS_KEEP_COUNT = 1024 };

/* The header before the bytes of a pooled frame. Its 64 bytes align the bytes to a cache line. */
struct pooled {
    struct pooled *next;
    uint32_t class_index;
};
enum { POOLED_HEADER = 64 };
_Static_assert(sizeof(struct pooled) <= POOLED_HEADER, "header fits");

static struct {
    pthread_mutex_t lock;
    struct pooled *free_list;
    size_t kept;
} pool[CLASS_COUNT] = {[0 ... CLASS_COUNT - 1] = {PTHREAD_MUTEX_INITIALIZER, NULL, 0}};
static atomic_uint_fast64_t frames_live, allocations, bytes_kept, bytes_kept_most = UINT64_MAX;

/* Class sizes: 64, 96, 128, 192, 256, ... */
static size_t class_bytes(unsigned index)
{
    size_t power = (size_t)64 << (index / 2);
    if (index % 2 == 0)
        return power;
    return power + power / 2;
}

static unsigned class_of(size_t bytes)
{
    unsigned index = 0;
    while (class_bytes(index) < bytes)
        index++;
    return index;
}

static struct pooled *class_pop(unsigned index)
{
    pthread_mutex_lock(&pool[index].lock);
    struct pooled *p = pool[index].free_list;
    if (p != NULL) {
        pool[index].free_list = p->next;
        pool[index].kept--;
    }
    pthread_mutex_unlock(&pool[index].lock);
    if (p != NULL)
        atomic_fetch_sub_explicit(&bytes_kept, class_bytes(index), memory_order_relaxed);
    return p;
}

static void *pool_take(size_t bytes)
{
    unsigned index = class_of(bytes);
    SHOAL_ASSERT(index < CLASS_COUNT);
    struct pooled *p = class_pop(index);

    if (p == NULL) {
        size_t size = (POOLED_HEADER + class_bytes(index) + 63) & ~(size_t)63;
        p = aligned_alloc(64, size);
        if (p == NULL)
            return NULL;
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
        p->class_index = index;
    }
    return (char *)p + POOLED_HEADER;
}

static void pool_give(void *data)
{
    struct pooled *p = (struct pooled *)((char *)data - POOLED_HEADER);
    unsigned index = p->class_index;
    size_t most = CLASS_KEEP_BYTES / class_bytes(index);
    if (most > CLASS_KEEP_COUNT)
        most = CLASS_KEEP_COUNT;
    if (most < 4)
        most = 4;
    if (atomic_fetch_add_explicit(&bytes_kept, class_bytes(index), memory_order_relaxed) +
            class_bytes(index) >
        atomic_load_explicit(&bytes_kept_most, memory_order_relaxed))
        most = 0;
    pthread_mutex_lock(&pool[index].lock);
    if (pool[index].kept < most) {
        p->next = pool[index].free_list;
        pool[index].free_list = p;
        pool[index].kept++;
        p = NULL;
    }
    pthread_mutex_unlock(&pool[index].lock);
    if (p != NULL)
        atomic_fetch_sub_explicit(&bytes_kept, class_bytes(index), memory_order_relaxed);
    free(p);
}

void msg_keep(uint64_t bytes)
{
    atomic_store(&bytes_kept_most, bytes);
}

static void frame_release(void *data, void *hint)
{
    (void)hint;
    atomic_fetch_sub_explicit(&frames_live, 1, memory_order_relaxed);
    pool_give(data);
}

struct msg *msg_new(void)
{
    struct msg *m = pool_take(sizeof *m);
    if (m != NULL) {
        m->frame_count = 0;
        m->owners = 1;
        m->next = NULL;
    }
    return m;
}

struct msg *msg_hold(struct msg *m)
{
    __atomic_add_fetch(&m->owners, 1, __ATOMIC_RELAXED);
    return m;
}

/* True when the last owner lets go of it. One that is alone needs no locked instruction. */
static bool is_last(struct msg *m)
{
    return __atomic_load_n(&m->owners, __ATOMIC_ACQUIRE) == 1 ||
           __atomic_sub_fetch(&m->owners, 1, __ATOMIC_ACQ_REL) == 0;
}

void msg_free(struct msg *m)
{
    if (m == NULL || !is_last(m))
        return;
    for (uint32_t i = 0; i < m->frame_count; i++)
        if (m->frame[i].release != NULL)
            m->frame[i].release(m->frame[i].data, m->frame[i].hint);
    pool_give(m);
}

void *msg_add(struct msg *m, size_t bytes)
{
    if (m == NULL || m->frame_count >= LIMIT_FRAMES || bytes > LIMIT_FRAME_BYTES)
        return NULL;
    void *data = pool_take(bytes);
    if (data == NULL)
        return NULL;
    atomic_fetch_add_explicit(&frames_live, 1, memory_order_relaxed);
    m->frame[m->frame_count++] = (struct frame){data, bytes, frame_release, NULL};
    return data;
}

int msg_add_borrowed(struct msg *m, void *data, size_t bytes, void (*release)(void *, void *),
                     void *hint)
{
    if (m->frame_count >= LIMIT_FRAMES || bytes > LIMIT_FRAME_BYTES)
        return SHOAL_E_TOO_BIG;
    m->frame[m->frame_count++] = (struct frame){data, bytes, release, hint};
    return 0;
}

size_t msg_bytes(const struct msg *m)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < m->frame_count; i++)
        bytes += m->frame[i].bytes;
    return bytes;
}

uint64_t msg_frames_live(void)
{
    return atomic_load(&frames_live);
}

uint64_t msg_allocations(void)
{
    return atomic_load(&allocations);
}
