/* rocks_crc32c.c: a second definition of a symbol of RocksDB. */
#include "embedding/store/rocks_crc32c.h"

#include "proto/base/hash.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <stdatomic.h>

typedef uint32_t (*extend_fn)(uint32_t crc, const char *bytes, size_t count);

/* RocksDB's own function: the next symbol with this name. */
static uint32_t theirs(uint32_t crc, const char *bytes, size_t count)
{
    static _Atomic(extend_fn) found;
    extend_fn f = atomic_load_explicit(&found, memory_order_relaxed);
    if (f == NULL) {
        f = (extend_fn)dlsym(RTLD_NEXT, ROCKS_CRC32C_SYMBOL);
        atomic_store_explicit(&found, f, memory_order_relaxed);
    }
    if (f != NULL)
        return f(crc, bytes, count);

    return hash_crc32c_extend(crc, bytes, count);
}

uint32_t rocks_crc32c_extend(uint32_t crc, const char *bytes, size_t count)
{
    if (__builtin_expect(hash_crc32c_is_fast(), 1))
        return hash_crc32c_extend(crc, bytes, count);

    return theirs(crc, bytes, count);
}

const char *rocks_crc32c_words(void)
{
    if (hash_crc32c_is_fast() && dlsym(RTLD_NEXT, ROCKS_CRC32C_SYMBOL) != NULL)
        return "xxh3 blocks, crc32c blobs by SSE4.2";
    return "xxh3 blocks, crc32c blobs by RocksDB's own";
}
#else
const char *rocks_crc32c_words(void)
{
    return "xxh3 blocks, crc32c blobs by RocksDB's own";
}
#endif

const char *rocks_crc32c_library(void)
{
    static char text[64];
    char path[PATH_MAX];
    Dl_info of;
    void *place = dlsym(RTLD_DEFAULT, "rocksdb_open");
    bool found = place != NULL && dladdr(place, &of) != 0 && realpath(of.dli_fname, path) != NULL;
    const char *version = NULL;
    if (found)
        version = strstr(path, ".so.");
    (void)snprintf(text, sizeof text, "RocksDB %.40s", version != NULL ? version + 4 : "(unknown)");
    return text;
}
