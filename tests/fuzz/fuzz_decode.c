/* fuzz_decode.c: any bytes as a packed or recoded file, behind one of the magic words (first byte).
 * The text is bounded: 16 MiB of it are enough. */
#include "tests/fuzz/fuzz_file.h"

#include "worker/data/decode.h"

static const struct {
    const char *magic;
    size_t bytes;
} words[] = {{"", 0},
             {"\x1f\x8b\x08\0\0\0\0\0\0\x03", 10},
             {"\x28\xb5\x2f\xfd", 4},
             {"\xfd\x37zXZ\0\0\x04\xe6\xd6\xb4\x46", 12},
             {"BZh91AY&SY", 10},
             {"\xff\xfe", 2},
             {"\xfe\xff", 2},
             {"a\rb\r", 4}};
#define WORDS (sizeof words / sizeof words[0])

static int take(void *to, const char *data, size_t bytes, struct err *e)
{
    uint64_t *taken = to;
    volatile char last = data[bytes - 1]; /* a sanitizer sees it read */
    (void)last;
    (void)e;
    *taken += bytes;
    return *taken > 16u << 20 ? SHOAL_E_END : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    uint64_t taken = 0, raw = 0;
    (void)snprintf(path, sizeof path, "%s/a.packed", fuzz_dir());
    uint8_t mode = fuzz_mode(&data, &size);
    size_t magic = words[mode % WORDS].bytes;
    uint8_t *copy = calloc(size + magic + 1, 1);
    SHOAL_ASSERT(copy != NULL);
    memcpy(copy, words[mode % WORDS].magic, magic);
    if (size > 0)
        memcpy(copy + magic, data, size);
    fuzz_file(path, copy, size + magic);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    SHOAL_ASSERT(fd >= 0);
    (void)decode_needed((const char *)copy, size + magic);
    free(copy);
    int rc = decode(&(struct decode_from){.fd = fd, .name = path}, take, &taken, &raw, &e);
    SHOAL_ASSERT(rc == 0 || rc == SHOAL_E_END || (e.code == rc && e.text[0] != '\0'));
    SHOAL_ASSERT(raw <= size + magic);
    close(fd);
    return 0;
}
