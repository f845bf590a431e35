/* killed_server.c: shoal-server with places where it dies as by kill -9. It is linked in front of
 * the server's own main for e2e/test_kill_points.py.
 *
 * The steps of an activity are counted: every change of a file that belongs to it, RocksDB's own
 * included, or every row that is put into a tablet that is built anew. All servers of a run map a
 * file, named by SHOAL_KILL_PLAN, which says at which step of which activity one of them dies. The
 * test writes it, and reads from it how many steps there were. Each death is a line of the file
 * PLAN.log: activity, call, path, process. With `tear`, a write at this step is first done by half.
 *
 * Steps are found in two ways: the C library's calls are defined here, as in tests/lib/kill_step.h;
 * calls between the engine's files are wrapped by the linker (tests/CMakeLists.txt). */
#include "embedding/engine.h"
#include "embedding/rows/age.h"
#include "embedding/rows/table_cold.h"
#include "embedding/rows/table_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum activity { NONE, CHECKPOINT, FLUSH, AGE, EVICT, RESTORE, RECOVERY, COLD, ACTIVITIES };
static const char *const activity_name[] = {"none",  "checkpoint", "flush",    "age",
                                            "evict", "restore",    "recovery", "cold"};

struct plan {
    _Atomic int32_t activity; /* NONE: no server dies */
    _Atomic int32_t tear;
    _Atomic int64_t countdown; /* steps until the death */
    _Atomic int64_t seen[ACTIVITIES];
};

static struct plan nothing, *plan = &nothing;
static char log_path[4096];
static atomic_int opening, loading; /* engines of this process */
/* a server has one shard in these tests: the engine that restored a cut last */
static _Atomic(const struct engine *) restorer;
/* rows are leaving for the store: chosen, and not yet dropped from memory */
static atomic_bool leaving;
static _Thread_local enum activity walking; /* rows are being moved out of a tablet */

__attribute__((constructor)) static void plan_map(void)
{
    const char *path = getenv("SHOAL_KILL_PLAN");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        abort();
    plan = p;
    snprintf(log_path, sizeof log_path, "%s.log", path);
}

/* Returns true when this process must die now. */
static bool step(enum activity a)
{
    if (a == NONE)
        return false;
    atomic_fetch_add(&plan->seen[a], 1);
    if (atomic_load(&plan->activity) != (int32_t)a || atomic_fetch_sub(&plan->countdown, 1) != 1)
        return false;
    atomic_store(&plan->activity, NONE);
    return true;
}

static _Noreturn void die(enum activity a, const char *call, const char *path)
{
    char line[4400];
    int n = snprintf(line, sizeof line, "%s %s %.4000s %d\n", activity_name[a], call, path,
                     (int)getpid());
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0644);
    if (fd < 0 || syscall(SYS_write, fd, line, (size_t)n) != n)
        abort(); /* otherwise the test would wait for ever */
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* ---- changes of files ---- */

static enum activity activity_of(const char *path, bool appends)
{
    size_t n = strlen(path);
    if (n > 4 && strcmp(path + n - 4, "/LOG") == 0)
        return NONE; /* RocksDB's log file */
    bool made = strstr(path, "/cuts/") != NULL || strstr(path, "/part-") != NULL;
    bool rows = strstr(path, "/rows/") != NULL, journal = strstr(path, "/journal/") != NULL;
    if (atomic_load(&opening) > 0)
        return made || rows || journal ? RECOVERY : NONE;
    const struct engine *back = rows || journal ? atomic_load(&restorer) : NULL;
    if (atomic_load(&loading) > 0 || (back != NULL && engine_restoring(back)))
        return rows || journal ? RESTORE : NONE;
    if (made)
        return CHECKPOINT;
    if (rows && atomic_load(&leaving))
        return COLD;
    return rows || (journal && !appends) ? FLUSH : NONE;
}

static void path_step(const char *call, const char *path)
{
    enum activity a = activity_of(path, false);
    if (step(a))
        die(a, call, path);
}

/* Returns true when the write must be done by half; *a is then its activity. */
static bool file_step(const char *call, int fd, bool appends, enum activity *a, char path[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    path[n > 0 ? n : 0] = 0;
    *a = activity_of(path, appends);
    if (!step(*a))
        return false;
    if (!appends || atomic_load(&plan->tear) == 0)
        die(*a, call, path);
    return true;
}

int link(const char *from, const char *to)
{
    path_step("link", to);
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int rename(const char *from, const char *to)
{
    path_step("rename", to);
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}
int mkdir(const char *path, mode_t mode)
{
    path_step("mkdir", path);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
int unlink(const char *path)
{
    path_step("unlink", path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int fsync(int fd)
{
    enum activity a;
    char path[4096];
    file_step("fsync", fd, false, &a, path);
    return (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd)
{
    enum activity a;
    char path[4096];
    file_step("fdatasync", fd, false, &a, path);
    return (int)syscall(SYS_fdatasync, fd);
}
ssize_t write(int fd, const void *bytes, size_t count)
{
    enum activity a;
    char path[4096];
    if (fd > STDERR_FILENO && file_step("write", fd, true, &a, path)) {
        (void)!syscall(SYS_write, fd, bytes, count / 2);
        die(a, "half a write", path);
    }
    return (ssize_t)syscall(SYS_write, fd, bytes, count);
}
ssize_t pwritev(int fd, const struct iovec *piece, int count, off_t at)
{
    enum activity a;
    char path[4096];
    if (file_step("pwritev", fd, true, &a, path)) {
        (void)!syscall(SYS_pwritev, fd, piece, count - count / 2, at, 0);
        die(a, "half a pwritev", path);
    }
    return (ssize_t)syscall(SYS_pwritev, fd, piece, count, at, 0);
}

/* ---- steps in the engine
 * ---------------------------------------------------------------------- */

/* Recovery lasts until the last tablet is recovered, which the engine reports with its owner's
 * context. */
#define OPENED 16u
static struct opened {
    void *context;
    void (*on_recovered)(void *context);
} opened[OPENED];
static atomic_uint opened_count;

static void recovered_cb(void *context)
{
    atomic_fetch_sub(&opening, 1);
    for (uint32_t i = 0; i < OPENED; i++)
        if (opened[i].context == context) {
            opened[i].on_recovered(context);
            return;
        }
    abort();
}

/* Returns NULL if the engine recovers at once. */
static const struct opened *remember(const struct engine_options *options)
{
    if (options->on_recovered == NULL)
        return NULL;
    uint32_t at = atomic_fetch_add(&opened_count, 1);
    if (at >= OPENED)
        abort();
    opened[at] = (struct opened){options->context, options->on_recovered};
    return &opened[at];
}

int __real_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e);
int __wrap_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e);
int __wrap_engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                       struct err *e)
{
    struct engine_options own = *options;
    const char *memory = getenv("SHOAL_KILL_MEMORY"); /* `shoal local` has no option for it */
    if (memory != NULL)
        own.memory = strtoull(memory, NULL, 10);
    const struct opened *o = remember(options);
    if (o != NULL)
        own.on_recovered = recovered_cb;
    atomic_fetch_add(&opening, 1);
    int rc = __real_engine_open(&own, env, out, e);
    if (rc != 0 || engine_back(*out))
        atomic_fetch_sub(&opening, 1);
    return rc;
}

struct loaded {
    engine_load_done done;
    void *context;
};

static void loaded_cb(void *context, int status, const char *text, uint64_t rows)
{
    struct loaded l = *(struct loaded *)context;
    free(context);
    atomic_fetch_sub(&loading, 1);
    l.done(l.context, status, text, rows);
}

int __real_engine_load(struct engine *g, const struct engine_load_options *o, engine_load_done done,
                       void *context, struct err *e);
int __wrap_engine_load(struct engine *g, const struct engine_load_options *o, engine_load_done done,
                       void *context, struct err *e);
int __wrap_engine_load(struct engine *g, const struct engine_load_options *o, engine_load_done done,
                       void *context, struct err *e)
{
    struct loaded *l = malloc(sizeof *l);
    if (l == NULL)
        abort();
    *l = (struct loaded){done, context};
    atomic_fetch_add(&loading, 1);
    int rc = __real_engine_load(g, o, loaded_cb, l, e);
    if (rc != 0) {
        atomic_fetch_sub(&loading, 1);
        free(l);
    }
    return rc;
}

int __real_engine_restore(struct engine *g, uint64_t cut, uint64_t run, struct err *e);
int __wrap_engine_restore(struct engine *g, uint64_t cut, uint64_t run, struct err *e);
int __wrap_engine_restore(struct engine *g, uint64_t cut, uint64_t run, struct err *e)
{
    atomic_fetch_add(&loading, 1);
    int rc = __real_engine_restore(g, cut, run, e);
    atomic_store(&restorer, g); /* its steps follow */
    atomic_fetch_sub(&loading, 1);
    return rc;
}

/* a server has one shard in these tests, and only that thread ages rows */
static enum activity caller;

int __real_age_before(struct table *t, const struct push_args *args);
int __wrap_age_before(struct table *t, const struct push_args *args);
int __wrap_age_before(struct table *t, const struct push_args *args)
{
    caller = AGE;
    int rc = __real_age_before(t, args);
    caller = NONE;
    return rc;
}

int __real_age_after(struct table *t, const struct push_args *args);
int __wrap_age_after(struct table *t, const struct push_args *args);
int __wrap_age_after(struct table *t, const struct push_args *args)
{
    caller = EVICT;
    int rc = __real_age_after(t, args);
    caller = NONE;
    return rc;
}

int __real_table_keep(struct table *t, uint32_t tablet, table_stays stays, void *context,
                      uint64_t undo_clock, uint64_t *gone);
int __wrap_table_keep(struct table *t, uint32_t tablet, table_stays stays, void *context,
                      uint64_t undo_clock, uint64_t *gone);
int __wrap_table_keep(struct table *t, uint32_t tablet, table_stays stays, void *context,
                      uint64_t undo_clock, uint64_t *gone)
{
    walking = caller != NONE && atomic_load(&opening) > 0 ? RECOVERY : caller;
    int rc = __real_table_keep(t, tablet, stays, context, undo_clock, gone);
    walking = NONE;
    return rc;
}

/* A row that stays is put into the new tablet. */
float *__real_tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                                  uint64_t key, uint32_t notes);
float *__wrap_tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                                  uint64_t key, uint32_t notes);
float *__wrap_tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                                  uint64_t key, uint32_t notes)
{
    if (step(walking))
        die(walking, "a tablet without the rows that go", "memory");
    return __real_tablet_insert_noted(t, s, number, key, notes);
}

/* ---- rows that move to the store and back ---- */

static void cold_step(const char *call)
{
    if (atomic_load(&opening) == 0 && step(COLD))
        die(COLD, call, "memory");
}

int __real_table_cold_choose(struct table *t, uint32_t tablet, uint32_t most, cold_put put,
                             void *context, uint32_t *chosen);
int __wrap_table_cold_choose(struct table *t, uint32_t tablet, uint32_t most, cold_put put,
                             void *context, uint32_t *chosen);
int __wrap_table_cold_choose(struct table *t, uint32_t tablet, uint32_t most, cold_put put,
                             void *context, uint32_t *chosen)
{
    int rc = __real_table_cold_choose(t, tablet, most, put, context, chosen);
    if (*chosen > 0)
        atomic_store(&leaving, true);
    cold_step("rows of a tablet that were chosen to go");
    return rc;
}

int __real_table_cold_drop(struct table *t, uint32_t tablet, uint32_t *count);
int __wrap_table_cold_drop(struct table *t, uint32_t tablet, uint32_t *count);
int __wrap_table_cold_drop(struct table *t, uint32_t tablet, uint32_t *count)
{
    cold_step("rows that the store has and memory still had");
    int rc = __real_table_cold_drop(t, tablet, count);
    atomic_store(&leaving, false);
    cold_step("a tablet that rows had left");
    return rc;
}

int __real_table_cold_take(struct table *t, uint64_t key, const void *value, size_t bytes);
int __wrap_table_cold_take(struct table *t, uint64_t key, const void *value, size_t bytes);
int __wrap_table_cold_take(struct table *t, uint64_t key, const void *value, size_t bytes)
{
    static unsigned taken; /* on the shard's thread; far more than of all others */
    if (++taken % 64 == 0)
        cold_step("a row that came back");
    return __real_table_cold_take(t, key, value, bytes);
}
