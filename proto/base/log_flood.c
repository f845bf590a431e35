/* log_flood.c: bounds the lines of a place in a minute, and counts the others. A table of
 * LOG_FLOODS entries holds the counts that are to be told; when it is full, places share its last
 * entry. */
#include "proto/base/hash.h"
#include "proto/base/log_inner.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

static uint64_t (*clock_ns)(void) = time_monotonic_ns;
static atomic_flag lock = ATOMIC_FLAG_INIT; /* held for some instructions, no call blocks */
static struct log_flood flood[LOG_FLOODS];  /* due_ns 0: unused */
static atomic_uint_least64_t dropped, first_due_ns = UINT64_MAX;

static void lock_take(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        (void)sched_yield();
}

static void lock_give(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

void log_clock_set(uint64_t (*now_ns)(void))
{
    clock_ns = now_ns != NULL ? now_ns : time_monotonic_ns;
}

uint64_t log_dropped(void)
{
    return atomic_load(&dropped);
}

/* The entry of the place, or a free one, or the last one, which several places share. */
static struct log_flood *entry_of(const struct log_place *p)
{
    struct log_flood *free_one = NULL;
    for (int i = 0; i < LOG_FLOODS; i++) {
        if (flood[i].due_ns == 0 && free_one == NULL)
            free_one = &flood[i];
        if (flood[i].due_ns != 0 && flood[i].file == p->file && flood[i].line == p->line)
            return &flood[i];
    }
    return free_one != NULL ? free_one : &flood[LOG_FLOODS - 1];
}

static void count(const struct log_place *p, enum log_level level, const char *text)
{
    struct log_flood *f = entry_of(p);
    atomic_fetch_add(&dropped, 1);
    if (f->due_ns == 0)
        *f = (struct log_flood){.file = p->file,
                                .function = p->function,
                                .line = p->line,
                                .level = level,
                                .due_ns = p->begun_ns + LOG_MINUTE_NS};
    if (f->file != p->file || f->line != p->line)
        f->file = f->function = NULL;
    f->left_out++;
    f->level = MIN(f->level, level);
    text_copy(f->text, sizeof f->text, text);
    if (f->due_ns < atomic_load(&first_due_ns))
        atomic_store(&first_due_ns, f->due_ns);
}

static bool may(struct log_place *p, uint64_t text, uint64_t now_ns)
{
    if (p->begun_ns == 0 || now_ns - p->begun_ns >= LOG_MINUTE_NS) {
        p->begun_ns = now_ns;
        p->said = p->same = 0;
    }
    p->same = text == p->last ? p->same + 1 : 1;
    p->last = text;
    if (p->said >= LOG_MOST || p->same > LOG_SAME)
        return false;
    p->said++;
    return true;
}

bool log_flood_may(struct log_place *p, enum log_level level, const char *text)
{
    uint64_t now_ns = clock_ns(), hash = hash_bytes(text, strlen(text), 0);
    lock_take();
    bool yes = may(p, hash, now_ns);
    if (!yes)
        count(p, level, text);
    lock_give();
    return yes;
}

bool log_flood_take(struct log_flood *out)
{
    uint64_t now_ns = clock_ns(), next_ns = UINT64_MAX;
    bool found = false;
    if (now_ns < atomic_load_explicit(&first_due_ns, memory_order_relaxed))
        return false;
    lock_take();
    for (int i = 0; i < LOG_FLOODS; i++) {
        struct log_flood *f = &flood[i];
        if (f->due_ns != 0 && f->due_ns <= now_ns && !found) {
            found = true;
            *out = *f;
            f->due_ns = 0;
        } else if (f->due_ns != 0)
            next_ns = MIN(next_ns, f->due_ns);
    }
    atomic_store(&first_due_ns, next_ns);
    lock_give();
    return found;
}
