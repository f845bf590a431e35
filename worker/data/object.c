/* object.c: lists objects, and opens single ones through the cache folder. */
#include "worker/data/object.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "worker/data/command.h"
#include "worker/data/dated.h"
#include "worker/data/events.h"
#include "worker/data/kafka.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIST_BYTES (4u << 20)  /* all lines of a list: they travel in one frame */
#define ALL_BYTES (256u << 20) /* growing log: the whole list, of which the new part is sent */
#define PAUSE_MAX_S 60u
#define INDEXES_BYTES (1u << 20) /* indexes of a growing log */
#define SUFFIX "object"          /* decoded text within data.cache_max */

/* ---- tries ----------------------------------------------------------------------------------- */

struct attempt {
    int (*run)(void *context, struct err *e);
    void *context;
    const char *name;
    uint32_t tries;
    bool (*passes)(int rc);
};

/* True for errors of a command that a retry may cure; a lack of disk space or memory here
 * remains. */
static bool command_passes(int rc)
{
    return rc != SHOAL_E_CANTCREATE && rc != SHOAL_E_NOMEM && rc != SHOAL_E_DENIED;
}

/* The same of a topic: what is gone does not come again. */
static bool kafka_passes(int rc)
{
    return rc == SHOAL_E_UNAVAILABLE;
}

static int attempt(const struct attempt *a, struct err *e)
{
    for (uint32_t n = 1;; n++) {
        int rc = a->run(a->context, e);
        if (rc == 0 || !a->passes(rc))
            return rc;
        if (n >= a->tries && n > 1)
            return err_wrap(e, rc, "tried %u times", n);
        if (n >= a->tries)
            return rc;
        uint32_t pause = PAUSE_MAX_S;
        if (n < 6)
            pause = 1u << (n - 1);
        log_warn("%s; again in %u s", e != NULL ? e->text : a->name, pause);
        struct timespec left = {.tv_sec = pause};
        while (nanosleep(&left, &left) != 0 && errno == EINTR)
            continue;
    }
}

/* ---- the list -------------------------------------------------------------------------------- */

struct listing {
    const struct job *job;
    uint32_t split;
    const char *what; /* the key that the list comes from */
    char *text;       /* owned; (most + 1) */
    size_t bytes, most;
};

static int listing_add(void *to, const char *data, size_t bytes, struct err *e)
{
    struct listing *l = to;
    if (bytes > l->most - l->bytes)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: the object list has more than %u MiB; list fewer and larger objects",
                       l->what, (uint32_t)(l->most >> 20));
    memcpy(l->text + l->bytes, data, bytes);
    l->bytes += bytes;
    return 0;
}

static int listing_run(void *context, struct err *e)
{
    struct listing *l = context;
    char name[64];
    (void)snprintf(name, sizeof name, "%s: object list", l->what);
    l->bytes = 0;
    return command_read(&(struct command){.text = l->job->data.objects.of[l->split].list,
                                          .name = name,
                                          .quiet_s = l->job->data.objects.quiet_s},
                        listing_add, l, NULL, e);
}

void object_line(const char *name, const char *mark, char out[LIMIT_PATH])
{
    size_t n = (size_t)snprintf(out, LIMIT_PATH, "%s%s%s", name, mark[0] != '\0' ? "\t" : "", mark);
    char *blank = NULL;
    if (n < LIMIT_PATH && mark[0] != '\0')
        blank = strchr(out + strlen(name) + 1, ' ');
    if (blank != NULL)
        *blank = '\t';
}

size_t object_name(const char *line)
{
    return strcspn(line, "\t");
}

uint64_t object_salt(const char *line)
{
    return hash_bytes(line, object_name(line), 1);
}

/* Parses BYTES of a line; false: there is no number. */
static bool size_of(const char *line, uint64_t *bytes)
{
    const char *at = line + object_name(line);
    char *end;
    if (*at == '\0' || at[1] < '0' || at[1] > '9')
        return false;
    errno = 0;
    *bytes = strtoull(at + 1, &end, 10);
    return errno == 0 && (*end == '\0' || *end == '\t');
}

static int line_check(const char *line, const char *what, struct err *e)
{
    size_t name = object_name(line);
    uint64_t bytes;
    if (name == 0 || name >= LIMIT_PATH / 2 || strlen(line) >= LIMIT_PATH)
        return err_set(e, SHOAL_E_DATA,
                       "%s: the object list has a line of %zu bytes, %zu of them a name "
                       "(%.40s): 1 to %u of a name and up to %u in all are possible",
                       what, strlen(line), name, line, LIMIT_PATH / 2 - 1, LIMIT_PATH - 1);
    uint32_t tabs = 0;
    for (const char *p = line; (p = text_unclean(p)) != NULL; p++)
        if (*p != '\t' || ++tabs > 2)
            return err_set(e, SHOAL_E_DATA,
                           "%s: object %.*s: byte %zu (0x%02x) of its line is a control character, "
                           "a third tab, or no UTF-8: give it another name",
                           what, (int)MIN(name, 60), line, (size_t)(p - line) + 1,
                           (unsigned)(unsigned char)*p);
    if (line[name] == '\t' && line[name + 1] != '\t' && !size_of(line, &bytes))
        return err_set(e, SHOAL_E_DATA,
                       "%s: object %.*s: behind the tab stands %.40s, not its bytes", what,
                       (int)name, line, line + name + 1);
    return 0;
}

static int listing_lines(struct listing *l, struct string_list *out, struct err *e)
{
    int rc = 0;
    l->text[l->bytes] = '\0';
    if (memchr(l->text, '\0', l->bytes) != NULL)
        return err_set(e, SHOAL_E_DATA, "%s: the object list has a byte 0", l->what);
    for (char *at = l->text, *end; rc == 0 && *at != '\0'; at = end) {
        size_t n = strcspn(at, "\n");
        end = at + n + (at[n] == '\n');
        if (n > 0 && at[n - 1] == '\r')
            n--;
        at[n] = '\0';
        if (n == 0)
            continue;
        rc = line_check(at, l->what, e);
        if (rc == 0 && config_list_add(out, at) != 0)
            rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory for the list of objects", l->what);
    }
    return rc;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* DATA when a name occurs twice: that object would be trained twice. */
static int names_check(const struct string_list *l, const char *what, struct err *e)
{
    for (size_t i = 1; i < l->count; i++) {
        size_t n = object_name(l->item[i]);
        if (object_name(l->item[i - 1]) == n && memcmp(l->item[i - 1], l->item[i], n) == 0)
            return err_set(e, SHOAL_E_DATA, "%s: object %.*s is listed twice", what, (int)n,
                           l->item[i]);
    }
    return 0;
}

static int commands_list(const struct job *job, uint32_t split, struct string_list *out,
                         struct err *e)
{
    bool grows = split == WIRE_TRAIN && job->data.objects.grow_ms > 0;
    size_t most = grows ? ALL_BYTES : LIST_BYTES;
    struct listing l = {.job = job, .split = split, .text = malloc(most + 1), .most = most};
    (void)job_input(job, split, &l.what);
    if (l.text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for the list of objects", l.what);
    int rc = attempt(
        &(struct attempt){listing_run, &l, l.what, job->data.objects.tries, command_passes}, e);
    if (rc == 0)
        rc = listing_lines(&l, out, e);
    free(l.text);
    return rc;
}

int object_list(const struct job *job, uint32_t split, struct string_list *out, struct err *e)
{
    const char *what, *command = job->data.objects.of[split].list;
    const struct string_list *files = job_input(job, split, &what);
    *out = (struct string_list){0};
    int rc;
    if (command != NULL)
        rc = commands_list(job, split, out, e);
    else
        rc = source_names(files, what, out, e);
    for (size_t i = 0; rc == 0 && command == NULL && i < out->count; i++)
        rc = line_check(out->item[i], what, e);
    if (rc == 0 && out->count == 0)
        rc = err_set(e, SHOAL_E_NOINPUT, "%s: the object list is empty; run its command by hand",
                     what);
    if (rc == 0 && out->count > LIMIT_OBJECTS)
        rc = err_set(e, SHOAL_E_CONFIG, "%s: %zu objects, more than %u; join some", what,
                     out->count, LIMIT_OBJECTS);
    if (rc == 0) {
        qsort(out->item, out->count, sizeof out->item[0], compare_lines);
        rc = names_check(out, what, e);
        if (rc == 0 && split == WIRE_TRAIN)
            rc = dated_check(job, out, e);
    }
    if (rc != 0)
        config_list_free(out);
    return rc;
}

/* ---- the list of a growing log
 * ---------------------------------------------------------------- */

/* The line of a file: its name, size and time; false: the file is gone. */
static bool file_line(const char *name, char line[LIMIT_PATH])
{
    struct stat st;
    if (stat(name, &st) != 0)
        return false;
    (void)snprintf(line, LIMIT_PATH, "%s\t%" PRIu64 "\t%" PRId64 ".%09ld", name,
                   (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return true;
}

static struct nameset_item item_of(const char *line)
{
    return nameset_item(line, object_name(line));
}

/* Takes the new lines that fit into a message. */
static int lines_take(const struct job *job, const struct string_list *all,
                      const struct nameset *taken, struct string_list *out, struct err *e)
{
    size_t bytes = 0;
    bool files = job->data.objects.of[WIRE_TRAIN].list == NULL;
    for (size_t i = 0; i < all->count && out->count < LIMIT_OBJECTS; i++) {
        char line[LIMIT_PATH];
        const char *is = all->item[i];
        if (nameset_has(taken, item_of(is)))
            continue;
        int rc = line_check(is, "data.train", e);
        if (rc != 0)
            return rc;
        if (files && !file_line(all->item[i], line))
            continue;
        if (files)
            is = line;
        bytes += strlen(is) + 1;
        if (bytes > LIST_BYTES)
            return 0; /* a later list has the rest */
        if (config_list_add(out, is) != 0)
            return err_set(e, SHOAL_E_NOMEM, "data.train: no memory for the list of objects");
    }
    return 0;
}

/* A bit for each taken name that is no longer listed. */
static int gone_make(const struct string_list *all, const struct nameset *taken, uint8_t **gone,
                     uint32_t *bytes, struct err *e)
{
    struct nameset listed = {.count = 0};
    int rc = 0;
    *bytes = (taken->count + 7) / 8;
    *gone = calloc(*bytes + 1, 1);
    for (size_t i = 0; rc == 0 && i < all->count; i++)
        rc = nameset_add(&listed, item_of(all->item[i]));
    if (rc != 0 || *gone == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "data.train: no memory for the list of objects");
    for (uint32_t i = 0; rc == 0 && i < taken->count; i++)
        if (!nameset_has(&listed, taken->item[i]))
            (*gone)[i / 8] |= (uint8_t)(1u << (i % 8));
    nameset_close(&listed);
    return rc;
}

/* Names of files, or the command's lines, in byte order. */
static int all_list(const struct job *job, struct string_list *all, struct err *e)
{
    bool files = job->data.objects.of[WIRE_TRAIN].list == NULL;
    int rc = 0;
    if (!files)
        rc = commands_list(job, WIRE_TRAIN, all, e);
    for (size_t i = 0; rc == 0 && files && i < job->data.train.count; i++) {
        if (source_is_stream(job->data.train.item[i])) /* a topic, whose ranges kafka.h lists */
            continue;
        const struct string_list one = {&job->data.train.item[i], 1};
        rc = source_names_any(&one, "data.train", all, e);
        if (rc == SHOAL_E_NOINPUT) /* no object exists yet */
            rc = 0;
    }
    if (rc == 0 && all->count > NAMESET_MAX)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "data.train: %zu objects are listed, and %u can be told apart: list fewer, "
                     "those from a date on, say; what a list has no more may come no more",
                     all->count, NAMESET_MAX);
    if (rc == 0 && all->count > 0)
        qsort(all->item, all->count, sizeof all->item[0], compare_lines);
    if (rc != 0)
        return rc;

    return names_check(all, "data.train", e);
}

int object_list_again(const struct job *job, const struct nameset *taken, struct string_list *out,
                      uint8_t **gone, uint32_t *bytes, struct err *e)
{
    struct string_list all = {0};
    *out = (struct string_list){0};
    *gone = NULL;
    *bytes = 0;
    int rc = all_list(job, &all, e);
    if (rc == 0)
        rc = lines_take(job, &all, taken, out, e);
    if (rc == 0 && taken->count > NAMESET_MAX / 2)
        rc = gone_make(&all, taken, gone, bytes, e);
    config_list_free(&all);
    if (rc == 0)
        return 0;
    config_list_free(out);
    free(*gone);
    *gone = NULL;
    *bytes = 0;
    return rc;
}

/* ---- one object ------------------------------------------------------------------------------ */

struct fetch {
    const struct job *job;
    const char *what, *open; /* the split's key and its command; NULL: it is a range */
    const char *line;
    struct position range;
    const struct cache *cache;
    struct source_file *file;
};

struct fetch_sink {
    const struct cache *cache;
    int fd;
};

static int fetch_add(void *to, const char *data, size_t bytes, struct err *e)
{
    const struct fetch_sink *s = to;
    return cache_write(s->cache, s->fd, data, bytes, e);
}

/* Lets the source print the object. */
static int fetch_text(struct fetch *f, const char *name, const char *shown,
                      const struct fetch_sink *sink, uint64_t *raw, struct err *e)
{
    if (f->open == NULL)
        return kafka_read(f->job, &f->range, fetch_add, (void *)(uintptr_t)sink, e);
    return command_read(&(struct command){.text = f->open,
                                          .argument = name,
                                          .name = shown,
                                          .quiet_s = f->job->data.objects.quiet_s},
                        fetch_add, (void *)(uintptr_t)sink, raw, e);
}

/* Checks that an event file has its end and a matching index. */
static int whole_check(int fd, const char *name, struct err *e)
{
    struct events v;
    struct err why = {0};
    int rc = events_open(fd, name, &v, &why);
    if (rc == 0)
        events_close(&v);
    else if (rc == SHOAL_E_CORRUPT || rc == SHOAL_E_CHECKSUM)
        rc = SHOAL_E_DATA; /* the object is at fault, not the disk it lies on */

    if (rc == 0)
        return 0;

    return err_set(e, rc, "%s", why.text);
}

/* Fetches the whole object, or keeps nothing. */
static int fetch_run(void *context, struct err *e)
{
    struct fetch *f = context;
    struct cache_file made;
    char name[LIMIT_PATH], shown[LIMIT_PATH + 32];
    uint64_t raw = 0, told;
    (void)snprintf(name, sizeof name, "%.*s", (int)object_name(f->line), f->line);
    (void)snprintf(shown, sizeof shown, "%s: object %s", f->what, name);
    int rc = cache_create(f->cache, f->file->group, f->file->identity, SUFFIX, &made, e);
    if (rc != 0)
        return rc;
    struct fetch_sink sink = {f->cache, made.fd};
    rc = fetch_text(f, name, shown, &sink, &raw, e);
    if (rc != 0 && f->open == NULL)
        (void)err_wrap(e, rc, "%s", shown);
    if (rc == 0 && size_of(f->line, &told) && told != raw)
        rc = err_set(e, SHOAL_E_DATA,
                     "%s: %" PRIu64 " bytes came, the list says %" PRIu64 "; it is not used", shown,
                     raw, told);
    if (rc == 0 && f->job->data.format == DATA_EVENTS)
        rc = whole_check(made.fd, shown, e);
    if (rc != 0) {
        cache_drop(&made);
        return rc;
    }
    rc = cache_keep(&made, &f->file->fd, e);
    if (rc == 0 && f->job->data.cache_max > 0) {
        cache_trim(f->cache, SUFFIX, f->job->data.cache_max);
        cache_trim(f->cache, "index", f->job->data.cache_max);
    }
    return rc;
}

/* One process of a machine fetches it; others wait and find it. */
static int fetch(struct fetch *f, struct err *e)
{
    struct source_file *file = f->file;
    struct stat st;
    const char *by = f->open != NULL ? f->open : f->job->data.kafka.topic;
    file->group = hash_bytes(by, strlen(by), object_salt(f->line));
    file->identity = hash_bytes(f->line, strlen(f->line), file->group);
    int rc = 0;
    file->fd = cache_find(f->cache, file->group, file->identity, SUFFIX);
    if (file->fd < 0) {
        int lock = cache_lock(f->cache, file->group, file->identity, SUFFIX);
        file->fd = cache_find(f->cache, file->group, file->identity, SUFFIX);
        if (file->fd < 0)
            rc = attempt(&(struct attempt){fetch_run, f, f->line, f->job->data.objects.tries,
                                           f->open != NULL ? command_passes : kafka_passes},
                         e);
        if (lock >= 0)
            close(lock);
    }
    if (f->open == NULL && rc == SHOAL_E_UNAVAILABLE) {
        rc = SHOAL_E_IO; /* data.objects.failed: leave_out is for messages that are gone */
        if (e != NULL)
            e->code = rc;
    }
    if (rc == 0 && fstat(file->fd, &st) != 0)
        rc = err_set(e, SHOAL_E_IO, "%s: %s", file->name, strerror(errno));
    file->bytes = 0;
    if (rc == 0)
        file->bytes = (uint64_t)st.st_size;

    return rc;
}

/* Opens an object that is a file. After its name, the line may have size and time from the
 * listing. */
static int file_open(const char *what, const char *line, const struct cache *cache,
                     struct source *out, struct err *e)
{
    char name[LIMIT_PATH], *item = name;
    const struct string_list one = {&item, 1};
    struct stat st;
    uint64_t told;
    (void)snprintf(name, sizeof name, "%.*s", (int)object_name(line), line);
    if (size_of(line, &told) && stat(name, &st) == 0 && (uint64_t)st.st_size != told)
        return err_set(e, SHOAL_E_DATA,
                       "%s: object %s has %" PRIu64 " bytes, and had %" PRIu64
                       " when it was listed: it is not used; rename files into the log when they "
                       "are whole",
                       what, name, (uint64_t)st.st_size, told);
    return source_open(&one, what, cache, out, e);
}

int object_open(const struct job *job, uint32_t split, const char *line, const struct cache *cache,
                struct source *out, struct err *e)
{
    struct fetch f = {
        .job = job, .open = job->data.objects.of[split].open, .line = line, .cache = cache};
    (void)job_input(job, split, &f.what);
    *out = (struct source){0};
    bool range = split == WIRE_TRAIN && job->data.kafka.on && position_of(line, &f.range);
    if (f.open == NULL && !range)
        return file_open(f.what, line, cache, out, e);
    int rc = line_check(line, f.what, e); /* the line came from the coordinator */
    if (rc != 0)
        return rc;
    out->file = calloc(1, sizeof out->file[0]);
    if (out->file == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to open an object; free some", f.what);
    out->count = 1;
    *out->file = (struct source_file){
        .fd = -1, .fetched = true, .messages = range, .name = strndup(line, object_name(line))};
    f.file = out->file;
    if (out->file->name == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory to open an object; free some", f.what);
    else
        rc = fetch(&f, e);

    out->bytes = out->file->bytes;
    if (rc != 0)
        source_close(out);
    return rc;
}

int object_open_all(const struct job *job, uint32_t split, const struct cache *cache,
                    struct source *out, struct err *e)
{
    struct string_list lines;
    *out = (struct source){0};
    int rc = object_list(job, split, &lines, e);
    if (rc != 0)
        return rc;
    out->file = calloc(lines.count, sizeof out->file[0]);
    if (out->file == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for %zu objects; free some", lines.count);
    for (size_t i = 0; rc == 0 && i < lines.count; i++) {
        struct source one;
        rc = object_open(job, split, lines.item[i], cache, &one, e);
        if (rc != 0)
            break;
        SHOAL_ASSERT(one.count == 1);
        out->file[out->count] = one.file[0];
        out->file[out->count++].base = out->bytes;
        out->bytes += one.bytes;
        free(one.file);
    }
    config_list_free(&lines);
    if (rc != 0)
        source_close(out);
    return rc;
}

void object_trim(const struct job *job, const struct cache *cache)
{
    if (job->data.objects.of[WIRE_TRAIN].open == NULL)
        cache_trim(cache, "text", job->data.cache_max);
    cache_trim(cache, "index", INDEXES_BYTES);
}

void object_clear(const struct job *job)
{
    struct cache cache;
    bool fetched = false;
    for (uint32_t s = 0; s < JOB_SPLITS; s++)
        fetched |= job->data.objects.of[s].open != NULL;
    fetched |= job->data.kafka.on;
    if (fetched && job->data.cache_max == 0 && cache_init(&cache, job->data.cache, NULL) == 0)
        cache_clear(&cache, SUFFIX);
}

void object_forget(const struct source *s, const struct cache *cache)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->file[i].fetched)
            cache_remove(cache, s->file[i].group, s->file[i].identity, SUFFIX);
}
