/* machine.c: /proc/self/cgroup names the groups; their limits are files below /sys/fs/cgroup. */
#include "proto/base/machine.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES_MOST (UINT64_C(1) << 20)

/* Reads the numbers of a one-line file; "max" is no number. Returns how many there are. */
static int numbers_read(const char *path, uint64_t out[2])
{
    char line[128];
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    bool got = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    int64_t a, b;
    int count = 0;
    if (got)
        count = sscanf(line, "%" SCNd64 " %" SCNd64, &a, &b);
    if (got && strncmp(line, "max", 3) == 0)
        return 0;
    if (count >= 1 && a < 0) /* v1 says -1 where there is no limit */
        return 0;
    if (count >= 1)
        out[0] = (uint64_t)a;
    if (count >= 2)
        out[1] = (uint64_t)b;
    return count;
}

/* Calls `look` for this process's group of the controller, and for each of its parents. */
struct group_walk {
    const char *root, *controller; /* in v1; v2 has one hierarchy */
    void (*look)(const char *folder, bool v2, void *context);
    void *context;
};

static void groups_above(const struct group_walk *w, const char *base, const char *group, bool v2)
{
    char folder[2 * LIMIT_PATH], path[LIMIT_PATH];
    text_copy(path, sizeof path, group);
    for (;;) {
        (void)snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s", w->root, base, path);
        w->look(folder, v2, w->context);
        char *slash = strrchr(path, '/');
        if (slash == NULL || path[0] == 0)
            return;
        *slash = 0;
    }
}

static bool has_word(const char *list, size_t bytes, const char *word)
{
    size_t length = strlen(word);
    for (size_t at = 0; at < bytes; at += strcspn(list + at, ",:") + 1)
        if (strncmp(list + at, word, length) == 0 &&
            (list[at + length] == ',' || list[at + length] == ':'))
            return true;
    return false;
}

static void groups_walk(const struct group_walk *w)
{
    char path[LIMIT_PATH], line[LIMIT_PATH], base[64];
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", w->root);
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':');
        if (list == NULL)
            continue;
        list++;
        char *group = strchr(list, ':');
        if (group == NULL)
            continue;
        group++;
        if (list[0] == ':') {
            groups_above(w, "", group, true);
        } else if (has_word(list, (size_t)(group - list), w->controller)) {
            (void)snprintf(base, sizeof base, "/%s", w->controller);
            groups_above(w, base, group, false);
        }
    }
    if (f != NULL)
        fclose(f);
}

/* ---- memory ---- */

static void memory_look(const char *folder, bool v2, void *context)
{
    static const char *const names[2][2] = {{"memory.limit_in_bytes", NULL},
                                            {"memory.max", "memory.high"}};
    uint64_t *least = context;
    for (int i = 0; i < 2 && names[v2][i] != NULL; i++) {
        char path[2 * LIMIT_PATH + 32];
        uint64_t value[2];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[v2][i]);
        if (numbers_read(path, value) >= 1 && value[0] > 0 && value[0] < *least)
            *least = value[0];
    }
}

uint64_t machine_memory(const char *root)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t least = UINT64_C(1) << 30;
    if (pages > 0 && page > 0)
        least = (uint64_t)pages * (uint64_t)page;
    groups_walk(&(struct group_walk){root, "memory", memory_look, &least});
    SHOAL_ASSERT(least > 0);
    return least;
}

/* ---- cores ---- */

static void quota_note(uint64_t quota, uint64_t period, uint32_t *least)
{
    uint64_t cores = 0;
    if (period > 0)
        cores = (quota + period - 1) / period;
    if (cores > 0 && cores < *least)
        *least = (uint32_t)cores;
}

static void cores_look(const char *folder, bool v2, void *context)
{
    char path[2 * LIMIT_PATH + 32];
    uint64_t value[2] = {0, 0}, period[2] = {0, 0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    int count = numbers_read(path, value);
    (void)snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (v2 && count == 2)
        quota_note(value[0], value[1], context);
    else if (!v2 && count >= 1 && numbers_read(path, period) >= 1)
        quota_note(value[0], period[0], context);
}

uint32_t machine_cores(const char *root)
{
    cpu_set_t set;
    uint32_t cores = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = (uint32_t)CPU_COUNT(&set);
    groups_walk(&(struct group_walk){root, "cpu", cores_look, &cores});
    return MAX(cores, 1u);
}

/* ---- start ---- */

/* Hashes the digits only: some sources write the id with dashes. */
static uint64_t boot_hash(const char *text)
{
    char digit[64];
    size_t digits = 0;
    for (; *text != '\0' && digits < sizeof digit; text++)
        if (isxdigit((unsigned char)*text))
            digit[digits++] = *text;
    if (digits > 0)
        return hash_bytes(digit, digits, 0) | 1;
    return 0;
}

uint64_t machine_boot(const char *root)
{
    char path[LIMIT_PATH], text[64] = "";
    const char *told = getenv("SHOAL_BOOT");
    (void)snprintf(path, sizeof path, "%s/proc/sys/kernel/random/boot_id", root);
    FILE *f = fopen(path, "re");
    if (f == NULL && told != NULL) /* a unit with ProcSubset=pid cannot read it, sets SHOAL_BOOT */
        return boot_hash(told);
    if (f == NULL)
        return 0;
    bool read = fgets(text, sizeof text, f) != NULL;
    (void)fclose(f);
    if (read)
        return boot_hash(text);
    return 0;
}

/* ---- files ---- */

uint64_t machine_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0)
        return 1024;
    struct rlimit more = l;
    if (l.rlim_max == RLIM_INFINITY || l.rlim_max > FILES_MOST)
        more.rlim_cur = FILES_MOST;
    else
        more.rlim_cur = l.rlim_max;
    if (more.rlim_cur > l.rlim_cur && setrlimit(RLIMIT_NOFILE, &more) == 0)
        return more.rlim_cur;
    return l.rlim_cur;
}

uint64_t machine_files_open(void)
{
    struct file_walk all;
    uint64_t count = 0;
    if (!file_walk_open(&all, "/proc/self/fd"))
        return 0;
    while (file_walk_next(&all) != NULL)
        count++;
    file_walk_close(&all);
    return count - 1; /* without the folder itself */
}
