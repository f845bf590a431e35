/* checkpoint.c: `shoal checkpoint create`, `list` and `restore`. Other files: checkpoint_look.c and
 * checkpoint_diff.c read checkpoints, checkpoint_sign.c signs them, checkpoint_remove.c removes
 * them. */
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/local_inner.h"
#include "deploy/cli/rights.h"
#include "deploy/cli/run.h"
#include "proto/base/array.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/base/zone.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SAY_NS UINT64_C(2000000000)
enum { MAKE_MS = 3600000, SILENT_MS = 10000, WAIT_MS = 600000, LIST_MAX = 100000 };

/* ---- create ---------------------------------------------------------------------------------- */

static void created_print(const struct wire_CHECKPOINT_reply *r, bool as_json)
{
    char size[32], lacks[LACKS_BYTES];
    text_copy(lacks, sizeof lacks, r->lacks);
    if (!as_json) {
        printf("%s: %" PRIu64 " rows, %s\n", r->path, r->rows,
               cli_size_text((double)r->bytes, size));
        if (r->lacks[0] != 0)
            printf("no whole checkpoint: %s\n", text_clean(lacks));
        return;
    }
    struct json *j = json_new_object();
    if (r->lacks[0] != 0)
        (void)json_set_string(j, "lacks", r->lacks);
    (void)json_set_string(j, "path", r->path);
    (void)json_set_int(j, "rows", (int64_t)r->rows);
    (void)json_set_int(j, "bytes", (int64_t)r->bytes);
    char *text = json_text(j, 2);
    puts(text_or(text, "{}"));
    free(text);
    json_free(j);
}

/* Refuses a run folder that was moved: its job's checkpoints belong in the folder where it ran,
 * unless the job named another one. */
static int moved_check(const char *run_dir, struct err *e)
{
    char path[2 * LIMIT_PATH], former[LIMIT_PATH];
    struct job job;
    if (!run_moved(run_dir, former))
        return 0;
    (void)snprintf(path, sizeof path, "%s/job.yaml", run_dir);
    int rc = job_load(path, NULL, &job, e);
    if (rc != 0)
        return rc;
    size_t n = strlen(former);
    if (strncmp(job.checkpoint.dir, former, n) == 0 && job.checkpoint.dir[n] == '/')
        rc = err_set(e, SHOAL_E_NOINPUT,
                     "%s lay in %s when it ran, and its checkpoints belong there: move it back, or "
                     "take `shoal export %s --out FOLDER`",
                     run_dir, former, run_dir);
    job_free(&job);
    return rc;
}

int checkpoint_endpoint(const struct option_line *o, struct local *l, char out[COORDINATORS_LIST],
                        struct err *e)
{
    const char *coordinator = option_text(o, "coordinator"), *run_dir = option_text(o, "run-dir");
    int rc = 0;
    if (run_dir == NULL)
        rc = cli_coordinator(o, &coordinator, e);
    if (rc != 0)
        return rc;
    if (coordinator != NULL &&
        snprintf(out, COORDINATORS_LIST, "%s", coordinator) >= (int)COORDINATORS_LIST)
        return err_set(e, SHOAL_E_USAGE, "--coordinator: its endpoints have at most %u bytes",
                       COORDINATORS_LIST - 1);
    if (coordinator != NULL)
        return 0;
    local_signals_take();
    umask(077);
    rc = moved_check(run_dir, e);
    if (rc == 0)
        rc = local_scratch_make(l, e);
    if (rc == 0)
        rc = local_programs_find(l, e);
    if (rc == 0)
        rc = local_run_open(l, run_dir, out, e);
    /* a copy is no remedy: its checkpoints belong to the run */
    if (rc == SHOAL_E_DENIED && l->children == 0 && rights_read(run_dir, e) == 0)
        rc = err_set(e, rc,
                     "checkpoints of %s are made and removed in its folder, which this user cannot "
                     "write: run this as the owner of the folder, where it can be written",
                     run_dir);
    return rc;
}

/* Prints a note once, after a moment, that the command waits. */
static void waits_say(const char *command, uint64_t since_ns, struct err *e, bool *said)
{
    if (command == NULL || *said || time_monotonic_ns() - since_ns < SAY_NS)
        return;
    fprintf(stderr, "%s: waits, ten minutes at most: %s\n", command, text_clean(e->text));
    *said = true;
}

int checkpoint_order(struct local *l, const char *endpoint, const char *command, struct wire *w,
                     struct wire *reply, struct err *e)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    bool own = l->children > 0, said = false;
    int rc = cli_ask_open(endpoint, NULL, &l->ask, e);
    if (rc != 0)
        return rc;
    cli_ask_silence(l->ask, SILENT_MS);
    uint64_t begun = time_monotonic_ns();
    do {
        rc = cli_ask(l->ask, w, NULL, MAKE_MS, reply, NULL, e);
        bool waits =
            rc == SHOAL_E_BUSY || rc == SHOAL_E_AGAIN || (own && rc == SHOAL_E_UNAVAILABLE);
        if (!waits || time_monotonic_ns() - begun > WAIT_MS * UINT64_C(1000000))
            break;
        waits_say(command, begun, e, &said);
        nanosleep(&pause, NULL);
        if (own)
            rc = local_children_watch(l, e);
        else
            rc = 0;
    } while (rc == 0);
    if (rc != 0)
        return err_wrap(e, rc, "coordinator %s", endpoint);
    return 0;
}

int checkpoint_space(const struct option_line *o, char out[LIMIT_NAME], struct err *e)
{
    const char *space = text_or(option_text(o, "space"), "");
    if (strlen(space) >= LIMIT_NAME)
        return err_set(e, SHOAL_E_USAGE, "--space: a name has at most %u bytes", LIMIT_NAME - 1);
    text_copy(out, LIMIT_NAME, space);
    return 0;
}

int checkpoint_create_main(struct option_line *o, struct err *e)
{
    static struct local l = {.io_threads = 1, .restart = true, .quiet = true};
    struct wire w = {.type = WIRE_TYPE_CHECKPOINT}, reply;
    char endpoint[COORDINATORS_LIST];
    const char *name = text_if(o->words == 1, o->word[0]);
    if (o->words == 1 && !manifest_name_ok(name))
        return err_set(e, SHOAL_E_USAGE,
                       "'%s' is no name of a checkpoint: letters, digits, '.', '_' and '-', not "
                       "first a '.', not last .tmp",
                       name);
    const char *without = text_or(option_text(o, "without"), "");
    struct wire_CHECKPOINT *order = &w.u.CHECKPOINT;
    if (snprintf(order->without, sizeof order->without, "%s", without) >=
        (int)sizeof order->without)
        return err_set(e, SHOAL_E_USAGE, "--without takes at most %zu bytes of names",
                       sizeof order->without - 1);
    int rc = checkpoint_space(o, order->space, e);
    if (rc == 0)
        rc = checkpoint_endpoint(o, &l, endpoint, e);
    text_copy(order->name, sizeof order->name, name);
    if (rc == 0)
        rc = checkpoint_order(&l, endpoint, NULL, &w, &reply, e);
    if (rc == 0)
        created_print(&reply.u.CHECKPOINT_reply, option_given(o, "json"));
    cli_ask_close(l.ask);
    local_stop(&l);
    local_scratch_remove(&l, rc == SHOAL_E_UNAVAILABLE);
    return rc;
}

/* ---- list ------------------------------------------------------------------------------------ */

struct listed {
    char name[LIMIT_NAME];
    struct json *manifest; /* owned; NULL: damaged */
    struct err why;
};

static int listed_compare(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    int order = manifest_order(x->manifest, y->manifest);
    if (order != 0)
        return order;
    return strcmp(x->name, y->name);
}

static int list_read(const char *dir, struct listed **out, size_t *count, struct err *e)
{
    struct file_walk walk;
    const char *entry;
    size_t capacity = 0;
    int rc = 0;
    if (!file_walk_open(&walk, dir))
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", dir, strerror(errno));
    while (rc == 0 && *count < LIST_MAX && (entry = file_walk_next(&walk)) != NULL) {
        char path[2 * LIMIT_PATH];
        struct stat st;
        (void)snprintf(path, sizeof path, "%s/%s", dir, entry);
        if (!manifest_name_ok(entry) || stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
            continue;
        if (array_room(out, *count, &capacity, 16) != 0) {
            rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
            break;
        }
        struct listed *l = &(*out)[(*count)++];
        memset(l, 0, sizeof *l);
        (void)snprintf(l->name, sizeof l->name, "%.63s", entry);
        (void)checkpoint_manifest(path, &l->manifest, &l->why);
    }
    file_walk_close(&walk);
    if (*count > 1)
        qsort(*out, *count, sizeof **out, listed_compare);
    return rc;
}

static void list_print(struct listed *l)
{
    struct json *m = json_printable(l->manifest);
    int64_t until = json_get_int(m, "until", 0);
    char size[32], label[32], learnt[48] = "", place[128], lacks[LACKS_BYTES];
    if (until > 0) { /* a checkpoint of a replay */
        zone_label(&ZONE_UTC, (uint64_t)until, label);
        (void)snprintf(learnt, sizeof learnt, ", events until %s", label);
    }
    if (m == NULL) {
        printf("%-20s damaged: %s\n", l->name, text_clean(l->why.text));
        return;
    }
    if (manifest_tables(m))
        (void)snprintf(place, sizeof place, "tables alone");
    else
        (void)snprintf(place, sizeof place, "epoch %.0f, %.0f examples%s",
                       json_get_number(m, "epoch", 0), json_get_number(m, "examples", 0), learnt);
    const char *job = json_get_string(m, "job", "?");
    const char *space = json_get_string(json_array_at(json_get(m, "tables"), 0), "space", job);
    bool other = strcmp(space, job) != 0;
    printf("%-20s %s  job %s%s%s, %s  %12.0f rows  %s in %zu part%s\n", l->name,
           json_get_string(m, "date", "?"), job, text_if(other, " of space "),
           text_if(other, space), place, json_get_number(m, "rows", 0),
           cli_size_text(json_get_number(m, "bytes", 0), size), json_count(json_get(m, "parts")),
           text_if(json_count(json_get(m, "parts")) != 1, "s"));
    if (manifest_lacks(m, lacks, sizeof lacks))
        printf("%-20s no whole checkpoint: %s\n", "", lacks);
    json_free(m);
}

static void list_json(const struct listed *l, size_t count)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < count; i++) {
        struct json *item = l[i].manifest != NULL ? json_hold(l[i].manifest) : json_new_object();
        if (l[i].manifest == NULL) {
            (void)json_set_string(item, "name", l[i].name);
            (void)json_set_string(item, "damaged", l[i].why.text);
        }
        (void)json_append(list, item);
    }
    char *text = json_text(list, 2);
    puts(text_or(text, "[]"));
    free(text);
    json_free(list);
}

int checkpoint_list_main(struct option_line *o, struct err *e)
{
    struct listed *list = NULL;
    size_t count = 0, damaged = 0;
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE,
                       "name the folder of the checkpoints; see `shoal checkpoint list --help`");
    int rc = list_read(o->word[0], &list, &count, e);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        damaged += list[i].manifest == NULL;
        if (!option_given(o, "json"))
            list_print(&list[i]);
    }
    if (rc == 0 && option_given(o, "json"))
        list_json(list, count);
    if (rc == 0 && damaged > 0)
        rc = err_set(e, SHOAL_E_CORRUPT, "%zu of %zu cannot be used", damaged, count);
    for (size_t i = 0; i < count; i++)
        json_free(list[i].manifest);
    free(list);
    return rc;
}

/* ---- restore --------------------------------------------------------------------------------- */

/* The additions to the job file. A kept job file contains the `fresh: all` with which its job was
 * once submitted. That key drops the rows that the servers hold, so only this command line may set
 * it. */
static int restore_set(struct option_line *o, struct string_list *out, struct err *e)
{
    const struct string_list *line = option_list(o, "set");
    int rc = 0;
    if (o->words == 1)
        rc = config_list_add(out, "fresh=[]");
    for (size_t i = 0; i < line->count && rc == 0; i++)
        rc = config_list_add(out, line->item[i]);
    if (rc != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    return 0;
}

int checkpoint_restore_main(struct option_line *o, struct err *e)
{
    struct string_list set = {0};
    struct json *m = NULL;
    struct begin begin = {.start = false};
    char kept[2 * LIMIT_PATH];
    const char *coordinator = NULL;
    if (o->words < 1)
        return err_set(e, SHOAL_E_USAGE,
                       "name the checkpoint's folder; see `shoal checkpoint restore --help`");
    int rc = cli_coordinator(o, &coordinator, e);
    if (rc == 0 && o->words == 1) {
        rc = checkpoint_manifest(o->word[0], &m, e);
        (void)snprintf(kept, sizeof kept, "%s/" MANIFEST_JOB_FILE, o->word[0]);
    }
    json_free(m);
    if (rc == 0)
        rc = begin_find(o->word[0], false, &begin, e);
    if (rc == 0)
        rc = restore_set(o, &set, e);
    if (rc == 0)
        rc = cli_submit_job(&(struct submit_order){.path = o->words == 2 ? o->word[1] : kept,
                                                   .set = &set,
                                                   .coordinator = coordinator,
                                                   .begin = begin,
                                                   .workers = option_int(o, "workers"),
                                                   .wait = !option_given(o, "no-wait")},
                            e);
    config_list_free(&set);
    return rc;
}
