/* log_level.c: levels by room. A room has a level of its own, or that of all; each is one atomic
 * number, so a change needs no lock. */
#include "proto/base/log_inner.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1, LEVELS = 4, WORD = 32 };
static const char *const level_name[LEVELS] = {"error", "warn", "info", "debug"};

/* Every folder of the sources that logs, and those around them (tests/reference.py). */
static const char *const room_name[] = {
    "proto",   "base",  "job",    "net",   "http",       "wire", "embedding", "rows",
    "journal", "store", "engine", "dense", "checkpoint", "cuda", "server",    "shard",
    "coord",   "core",  "fleet",  "work",  "figures",    "keep", "zookeeper", "worker",
    "data",    "train", "ring",   "lib",   "deploy",     "cli",
};
enum { ROOMS = sizeof room_name / sizeof room_name[0] };

/* level_all is at least the level of all; `most` is the highest of all these levels. */
static atomic_int level_all = LOG_LEVEL_INFO, most = LOG_LEVEL_INFO;
static atomic_int level_room[ROOMS]; /* 0: that of all; else 1 + the level */

struct levels { /* a text, parsed; as above */
    int all, room[ROOMS];
};

/* The index of the word among the names; NONE: it is none of them. */
static int word_find(const char *const *name, int count, const char *word, size_t bytes)
{
    for (int i = 0; i < count; i++)
        if (strlen(name[i]) == bytes && memcmp(name[i], word, bytes) == 0)
            return i;
    return NONE;
}

/* One item: LEVEL, where it is the first, or ROOM=LEVEL. */
static bool item_parse(const char *item, size_t bytes, bool first, struct levels *out)
{
    const char *equal = memchr(item, '=', bytes);
    if (equal == NULL) {
        int level = word_find(level_name, LEVELS, item, bytes);
        if (!first || level == NONE)
            return false;
        out->all = level;
        return true;
    }
    size_t name = (size_t)(equal - item);
    int room = word_find(room_name, ROOMS, item, name);
    int level = word_find(level_name, LEVELS, equal + 1, bytes - name - 1);
    if (room == NONE || level == NONE)
        return false;
    out->room[room] = level + 1;
    return true;
}

static const char *levels_parse(const char *text, struct levels *out)
{
    static _Thread_local char wrong[WORD];
    *out = (struct levels){.all = LOG_LEVEL_INFO};
    for (const char *at = text;;) {
        size_t bytes = strcspn(at, ",");
        if (!item_parse(at, bytes, at == text, out)) {
            (void)snprintf(wrong, sizeof wrong, "%.*s", (int)bytes, at);
            return wrong;
        }
        if (at[bytes] == '\0')
            return NULL;
        at += bytes + 1;
    }
}

static void levels_use(const struct levels *l)
{
    int highest = l->all;
    for (int i = 0; i < ROOMS; i++) {
        atomic_store(&level_room[i], l->room[i]);
        if (l->room[i] - 1 > highest)
            highest = l->room[i] - 1;
    }
    atomic_store(&level_all, l->all);
    atomic_store(&most, highest);
}

void log_set_level(enum log_level level)
{
    levels_use(&(struct levels){.all = (int)level});
}

const char *log_levels_wrong(const char *levels)
{
    struct levels l;
    return levels_parse(levels, &l);
}

const char *log_levels_set(const char *levels)
{
    struct levels l;
    const char *wrong;
    if (levels == NULL && (levels = getenv("SHOAL_LOG")) == NULL)
        levels = "info";
    wrong = levels_parse(levels, &l);
    if (wrong == NULL)
        levels_use(&l);
    return wrong;
}

/* The path from the root of the sources on. Builds differ in what __FILE__ begins with: nothing, a
 * way up from the build's folder, an absolute path, or what a packager maps it to. This file's own
 * begins with the same. */
static const char *path_inside(const char *file)
{
    static const char own[] = __FILE__, inside[] = "proto/base/log_level.c";
    const size_t before = sizeof own - sizeof inside;
    return strncmp(file, own, before) == 0 ? file + before : file;
}

bool log_level_shown(const char *file, enum log_level level)
{
    if ((int)level > atomic_load_explicit(&most, memory_order_relaxed))
        return false;
    int shown = atomic_load_explicit(&level_all, memory_order_relaxed);
    const char *at = file == NULL ? "" : path_inside(file), *slash;
    for (; (slash = strchr(at, '/')) != NULL; at = slash + 1) {
        int room = word_find(room_name, ROOMS, at, (size_t)(slash - at));
        int own = room == NONE ? 0 : atomic_load_explicit(&level_room[room], memory_order_relaxed);
        if (own != 0)
            shown = own - 1;
    }
    return (int)level <= shown;
}

void log_room(const char *file, char *out, size_t bytes)
{
    out[0] = '\0';
    if (file == NULL)
        return;
    file = path_inside(file);
    const char *slash = strrchr(file, '/');
    if (slash != NULL)
        (void)snprintf(out, bytes, "%.*s", (int)(slash - file), file);
}
