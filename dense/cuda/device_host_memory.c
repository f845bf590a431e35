/* device_host_memory.c: the stand-in's device memory and pinned memory. */
#include "dense/cuda/device_host.h"
#include "proto/base/minmax.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(p, bytes) ASAN_POISON_MEMORY_REGION(p, bytes)
#define ALLOW(p, bytes) ASAN_UNPOISON_MEMORY_REGION(p, bytes)
#else
#define FORBID(p, bytes) ((void)(p), (void)(bytes))
#define ALLOW(p, bytes) ((void)(p), (void)(bytes))
#endif

/* address space, not memory; ThreadSanitizer leaves room for little more than one such range */
#ifdef __SANITIZE_THREAD__
#define STRETCH_BYTES ((size_t)1 << 36)
#else
#define STRETCH_BYTES ((size_t)1 << 40)
#endif
#define ROOM_LEAST_BITS 8u /* smallest piece: 256 bytes */
#define ROOM_MOST_BITS 40u
#define PAGE 4096u
#define LARGE (64u << 10) /* bytes from which a freed piece gives its pages back */
#define NONE UINT32_MAX
/* The addresses of a program's own memory. Lower values also arise from two small numbers side by
 * side, which are no pointers. */
#define ADDRESS_LEAST ((uintptr_t)0x55 << 40)
#define ADDRESS_END ((uintptr_t)1 << 47)

/* A power of two of bytes that is reused again and again. */
struct piece {
    char *at;
    size_t bytes; /* bytes requested; 0: free */
    uint32_t bits, next, device;
};

struct pinned {
    char *at;
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    char *stretch;
    size_t taken[LIMIT_DEVICES]; /* bytes of pieces in use */
    size_t most;                 /* bytes that each device has */
    size_t used, open_bytes;     /* bytes from the front: ever handed out; open */
    uint32_t open;               /* streams that are running */
    struct piece *piece;         /* (count), by address */
    uint32_t count, room;
    uint32_t free[ROOM_MOST_BITS + 1]; /* index + 1 of the first free piece of this size; 0: none */
    struct pinned *pinned;
    uint32_t pinned_count, pinned_room;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Noreturn static void mixed_up(const char *what, const void *p, const char *how)
{
    fprintf(stderr, "cudahost: %s is given %p, %s\n", what, p, how);
    abort();
}

static void must(bool well, const char *what)
{
    if (well)
        return;
    perror(what);
    abort();
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool in_stretch(const void *p)
{
    return all.stretch != NULL && (const char *)p >= all.stretch &&
           (const char *)p < all.stretch + STRETCH_BYTES;
}

/* The piece that contains p, free or not; NULL: none. */
static struct piece *piece_of(const void *p)
{
    uint32_t low = 0, high = all.count;
    if (!in_stretch(p) || all.count == 0)
        return NULL;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (all.piece[middle].at <= (const char *)p)
            low = middle;
        else
            high = middle;
    }
    struct piece *found = &all.piece[low];
    if ((const char *)p < found->at + ((size_t)1 << found->bits))
        return found;
    return NULL;
}

static void *grown(void *array, uint32_t count, uint32_t *room, size_t each)
{
    if (count < *room)
        return array;
    *room = *room * 2 + 64;
    array = realloc(array, *room * each);
    must(array != NULL, "cudahost");
    return array;
}

static void stretch_make(void)
{
    if (all.stretch != NULL)
        return;
    void *p =
        mmap(NULL, STRETCH_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(p != MAP_FAILED, "cudahost: a stretch of addresses");
    all.stretch = p;
    const char *most = getenv("SHOAL_CUDAHOST_MEMORY");
    all.most = STRETCH_BYTES;
    if (most != NULL && *most)
        all.most = strtoull(most, NULL, 10);
}

static uint32_t bits_of(size_t bytes)
{
    uint32_t bits = ROOM_LEAST_BITS;
    while (bits < ROOM_MOST_BITS && (size_t)1 << bits < bytes)
        bits++;
    return bits;
}

static struct piece *piece_new(uint32_t bits)
{
    size_t room = (size_t)1 << bits;
    if (room >= PAGE)
        all.used = (all.used + PAGE - 1) / PAGE * PAGE;
    if (STRETCH_BYTES - all.used < room)
        return NULL;
    all.piece = grown(all.piece, all.count, &all.room, sizeof *all.piece);
    struct piece *made = &all.piece[all.count++];
    *made = (struct piece){.at = all.stretch + all.used, .bits = bits};
    all.used += room;
    return made;
}

void *device_host_memory_alloc(uint32_t device, size_t bytes)
{
    uint32_t bits = bits_of(bytes);
    pthread_mutex_lock(&all.lock);
    stretch_make();
    struct piece *got = NULL;
    bool room = bytes <= all.most && all.taken[device] <= all.most - bytes;
    if (room && all.free[bits] > 0)
        got = &all.piece[all.free[bits] - 1];
    else if (room)
        got = piece_new(bits);
    if (got != NULL) {
        if (all.free[bits] > 0)
            all.free[bits] = got->next;
        got->bytes = MAX(bytes, 1);
        got->device = device;
        all.taken[device] += got->bytes;
        FORBID(got->at, (size_t)1 << bits);
        ALLOW(got->at, got->bytes);
    }
    void *at = NULL;
    if (got != NULL)
        at = got->at;
    pthread_mutex_unlock(&all.lock);
    return at;
}

void device_host_memory_free(void *p)
{
    pthread_mutex_lock(&all.lock);
    struct piece *given = piece_of(p);
    if (given == NULL || given->at != p || given->bytes == 0)
        mixed_up("free", p, "which is no piece of device memory that is in use");
    if (given->bytes >= LARGE)
        must(madvise(given->at, given->bytes / PAGE * PAGE, MADV_DONTNEED) == 0,
             "cudahost: giving memory back");
    all.taken[given->device] -= given->bytes;
    given->bytes = 0;
    given->next = all.free[given->bits];
    all.free[given->bits] = (uint32_t)(given - all.piece) + 1;
    FORBID(given->at, (size_t)1 << given->bits);
    pthread_mutex_unlock(&all.lock);
}

void device_host_memory_size(uint32_t device, uint64_t *taken, uint64_t *size)
{
    pthread_mutex_lock(&all.lock);
    stretch_make();
    *taken += all.taken[device];
    *size += all.most;
    pthread_mutex_unlock(&all.lock);
}

void device_host_memory_open(void)
{
    pthread_mutex_lock(&all.lock);
    size_t wanted = (all.used + PAGE - 1) / PAGE * PAGE;
    if (wanted > all.open_bytes) {
        must(mprotect(all.stretch, wanted, PROT_READ | PROT_WRITE) == 0,
             "cudahost: opening device memory");
        all.open_bytes = wanted;
    }
    all.open++;
    pthread_mutex_unlock(&all.lock);
}

void device_host_memory_close(void)
{
    pthread_mutex_lock(&all.lock);
    if (--all.open == 0 && all.open_bytes > 0) {
        must(mprotect(all.stretch, all.open_bytes, PROT_NONE) == 0,
             "cudahost: closing device memory");
        all.open_bytes = 0;
    }
    pthread_mutex_unlock(&all.lock);
}

/* ---- looking at pointers --------------------------------------------------------------------- */

void device_host_memory_check(const char *what, uint32_t number, const void *p, size_t bytes)
{
    pthread_mutex_lock(&all.lock);
    const struct piece *found = piece_of(p);
    bool within = found != NULL && found->bytes > 0 &&
                  bytes <= found->bytes - (size_t)((const char *)p - found->at);
    bool device = in_stretch(p), own = found != NULL && found->device == number;
    pthread_mutex_unlock(&all.lock);
    if (within && !own)
        mixed_up(what, p, "which is the memory of another device");
    if (!within && device)
        mixed_up(what, p, "device memory that is not in use, or less of it than it takes");
    else if (!within)
        mixed_up(what, p, "which is the host's memory and not the device's");
}

void device_host_memory_refuse(const char *what, const void *p)
{
    pthread_mutex_lock(&all.lock);
    bool device = in_stretch(p);
    pthread_mutex_unlock(&all.lock);
    if (device)
        mixed_up(what, p, "which is the device's memory and not the host's");
}

/* True when this process has memory at the address. */
static bool mapped(uintptr_t address)
{
    unsigned char resident;
    return mincore((void *)(address & ~(uintptr_t)(PAGE - 1)), 1, &resident) == 0;
}

/* A compiler that leaves garbage in the padding of arguments (kernel.h) makes the scan
 * meaningless. */
#if defined __has_builtin
#if __has_builtin(__builtin_clear_padding)
#define SCANS true
#endif
#endif
#ifndef SCANS
#define SCANS false
#endif

/* p points into a piece of another device that is in use. */
static bool of_another(uint32_t device, const void *p)
{
    pthread_mutex_lock(&all.lock);
    const struct piece *found = piece_of(p);
    bool another =
        found != NULL && found->device != device && (const char *)p < found->at + found->bytes;
    pthread_mutex_unlock(&all.lock);
    return another;
}

void device_host_memory_scan(const char *what, uint32_t device, const void *args, size_t bytes)
{
    if (!SCANS)
        return;
    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)args + at, sizeof word);
        if (of_another(device, (const void *)word))
            mixed_up(what, (const void *)word, "which is the memory of another device");
        if (word < ADDRESS_LEAST || word >= ADDRESS_END || in_stretch((const void *)word))
            continue;
        if (mapped(word))
            mixed_up(what, (const void *)word, "which is the host's memory and not the device's");
    }
}

/* ---- pinned memory --------------------------------------------------------------------------- */

#define PINNED_ALIGN 256u

void *device_host_pinned_alloc(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, PINNED_ALIGN, MAX(bytes, 1)) != 0) /* exact size, for ASan */
        return NULL;
    pthread_mutex_lock(&all.lock);
    all.pinned = grown(all.pinned, all.pinned_count, &all.pinned_room, sizeof *all.pinned);
    all.pinned[all.pinned_count++] = (struct pinned){p, MAX(bytes, 1)};
    pthread_mutex_unlock(&all.lock);
    return p;
}

static uint32_t pinned_find(const void *p)
{
    for (uint32_t i = 0; i < all.pinned_count; i++)
        if ((const char *)p >= all.pinned[i].at &&
            (const char *)p < all.pinned[i].at + all.pinned[i].bytes)
            return i;
    return NONE;
}

void device_host_pinned_free(void *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&all.lock);
    uint32_t i = pinned_find(p);
    if (i == NONE || all.pinned[i].at != p)
        mixed_up("host_free", p, "which is no pinned memory");
    all.pinned[i] = all.pinned[--all.pinned_count];
    pthread_mutex_unlock(&all.lock);
    free(p);
}

bool device_host_pinned_has(const void *p)
{
    pthread_mutex_lock(&all.lock);
    bool has = pinned_find(p) != NONE;
    pthread_mutex_unlock(&all.lock);
    return has;
}
