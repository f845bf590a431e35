/* inputs.c: opens inputs off the loop, counts their users, closes them. */
#include "worker/data/inputs.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/config.h"
#include "worker/data/heads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
    struct inputs *set;
    uint32_t split, object;
    char line[LIMIT_PATH];
    struct dataset *data; /* owned; the work thread's while it opens; NULL: opening failed */
    uint32_t users;
    uint64_t used; /* value of `uses` when it was last requested */
    bool opening;
    bool profiles; /* opening also makes the profile */
    char *profile; /* owned; the profile; the work thread's while it opens */
    int status;    /* result of the last opening */
    struct err error;
    struct env_work work;
};

/* ---- opening --------------------------------------------------------------------------------- */

/* A profile that is too long for a message is dropped. */
static int profile_make(struct input *in)
{
    struct json *profile;
    int rc = dataset_profile(in->data, in->set->job, &profile, &in->error);
    in->profile = json_text(profile, 0);
    json_free(profile);
    if (in->profile == NULL || strlen(in->profile) <= WIRE_PROFILE_MAX)
        return rc;
    free(in->profile);
    in->profile = NULL;
    return rc;
}

static void open_run(struct env_work *w) /* on a thread of the pool */
{
    struct input *in = container_of(w, struct input, work);
    /* before training, not when the first evaluation opens a file of another kind */
    in->status = 0;
    if (in->profiles)
        in->status = heads_check_all(in->set->job, &in->error);
    if (in->status != 0)
        return;
    if (in->object == INPUTS_NO_OBJECT)
        in->status = dataset_open(in->set->job, in->split, &in->data, &in->error);
    else
        in->status = dataset_open_object(in->set->job, in->split, in->line, &in->data, &in->error);
    if (in->status != 0 || !in->profiles)
        return;
    in->status = profile_make(in);
    if (in->status != 0)
        dataset_close(in->data);
}

/* The first profile is kept. */
static void profile_keep(struct input *in)
{
    if (in->set->profile == NULL)
        in->set->profile = in->profile;
    else
        free(in->profile);
    in->profile = NULL;
}

static void open_done(struct env_work *w)
{
    struct input *in = container_of(w, struct input, work);
    SHOAL_ASSERT(in->opening);
    in->opening = false;
    in->used = ++in->set->uses; /* its waiter asks again soon */
    if (in->status != 0)
        in->data = NULL;
    profile_keep(in);
    in->set->on_change(in->set->context);
}

static struct input *input_find(const struct inputs *s, uint32_t split, uint32_t object,
                                const char *line)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->input[i]->split == split && s->input[i]->object == object &&
            (object == INPUTS_NO_OBJECT || strcmp(s->input[i]->line, line) == 0))
            return s->input[i];
    return NULL;
}

static struct input *input_add(struct inputs *s, uint32_t split, uint32_t object, const char *line)
{
    struct input *in = calloc(1, sizeof *in);
    if (in == NULL || array_reserve(&s->input, s->count + 1ull, &s->capacity) != 0) {
        free(in);
        return NULL;
    }
    *in = (struct input){
        .set = s, .split = split, .object = object, .work = {.run = open_run, .done = open_done}};
    if (line != NULL)
        (void)snprintf(in->line, sizeof in->line, "%s", line);
    s->input[s->count++] = in;
    return in;
}

static void input_remove(struct inputs *s, struct input *in)
{
    uint32_t i = 0;
    while (s->input[i] != in)
        i++;
    s->input[i] = s->input[--s->count];
    free(in);
}

static void input_open(struct inputs *s, struct input *in)
{
    in->opening = true;
    in->profiles = in->split == WIRE_TRAIN && s->profile == NULL && !s->job->train.skip;
    memset(&in->error, 0, sizeof in->error);
    env_work_start(s->env, &in->work);
}

int inputs_open(struct inputs *s, uint32_t split, uint32_t object, const char *line,
                struct dataset **out, struct err *e)
{
    if (split >= JOB_SPLITS || (object != INPUTS_NO_OBJECT && object >= LIMIT_OBJECTS))
        return err_set(e, SHOAL_E_MALFORMED,
                       "the coordinator names split %u, object %u: there are train, valid and "
                       "test, and %u objects of each at most",
                       split, object, LIMIT_OBJECTS);
    struct input *in = input_find(s, split, object, line);
    bool fresh = in == NULL;
    if (fresh && (in = input_add(s, split, object, line)) == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to open the input; free some");
    if (fresh)
        input_open(s, in);
    if (in->opening)
        return SHOAL_E_AGAIN;
    if (in->data != NULL) {
        in->users++;
        in->used = ++s->uses;
        *out = in->data;
        return 0;
    }
    if (e != NULL)
        *e = in->error;
    int rc = in->status;
    if (object != INPUTS_NO_OBJECT)
        input_remove(s, in);
    return rc;
}

void inputs_looked(struct inputs *s)
{
    for (uint32_t i = s->count; i-- > 0;) { /* the last input takes the place of a closed one */
        struct input *in = s->input[i];
        if (in->object != INPUTS_NO_OBJECT && !in->opening && in->data == NULL)
            input_remove(s, in);
    }
}

/* ---- closing --------------------------------------------------------------------------------- */

/* The cache folder is trimmed where files are added (object.c). */
static void object_close(struct inputs *s, struct input *in)
{
    if (s->job->data.objects.grow_ms > 0)
        dataset_trim(in->data, s->job);
    if (s->job->data.cache_max == 0)
        dataset_forget(in->data);
    else
        dataset_close(in->data);
    input_remove(s, in);
}

/* Keeps the most recently used idle objects open. */
static void objects_trim(struct inputs *s)
{
    for (;;) {
        struct input *oldest = NULL;
        uint32_t idle = 0;
        for (uint32_t i = 0; i < s->count; i++) {
            struct input *in = s->input[i];
            if (in->opening || in->object == INPUTS_NO_OBJECT || in->users > 0 || in->data == NULL)
                continue;
            idle++;
            if (oldest == NULL || in->used < oldest->used)
                oldest = in;
        }
        if (idle <= INPUTS_IDLE)
            return;
        object_close(s, oldest);
    }
}

void inputs_release(struct inputs *s, const struct dataset *d)
{
    for (uint32_t i = 0; d != NULL && i < s->count; i++)
        if (!s->input[i]->opening && s->input[i]->data == d) {
            SHOAL_ASSERT(s->input[i]->users > 0);
            s->input[i]->users--;
            break;
        }
    objects_trim(s);
}

bool inputs_busy(const struct inputs *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->input[i]->opening)
            return true;
    return s->listing;
}

void inputs_close(struct inputs *s)
{
    SHOAL_ASSERT(!inputs_busy(s));
    object_clear(s->job);
    for (uint32_t i = 0; i < s->count; i++) {
        dataset_close(s->input[i]->data);
        free(s->input[i]);
    }
    free(s->input);
    dataset_listed_free(&s->got);
    free(s->profile);
    nameset_close(&s->taken);
    positions_close(&s->positions);
    memset(s, 0, sizeof *s);
}

/* ---- the list of objects --------------------------------------------------------------------- */

static void list_run(struct env_work *w) /* on a thread of the pool */
{
    struct inputs *s = container_of(w, struct inputs, list);
    bool grows = s->listed == WIRE_TRAIN && s->job->data.objects.grow_ms > 0;
    s->list_error = (struct err){.code = 0};
    if (grows)
        s->list_status = dataset_objects_again(s->job, &s->taken, &s->positions,
                                               s->job->data.head == NULL, &s->got, &s->list_error);
    else
        s->list_status =
            dataset_objects(s->job, s->listed, &s->got.lines, &s->got.head, &s->list_error);
    s->known |= grows && s->list_status == 0;
}

static void list_done(struct env_work *w)
{
    struct inputs *s = container_of(w, struct inputs, list);
    s->listing = false;
    s->on_change(s->context);
}

void inputs_relist(struct inputs *s, uint32_t split)
{
    if (s->listing)
        return;
    dataset_listed_free(&s->got);
    s->listed = split;
    s->list_status = 1;
}

int inputs_list(struct inputs *s, struct err *e)
{
    if (!s->listing && s->list_status == 1) {
        s->listing = true;
        env_work_start(s->env, &s->list);
    }
    if (s->listing)
        return SHOAL_E_AGAIN;
    if (s->list_status != 0 && e != NULL)
        *e = s->list_error;
    return s->list_status;
}

void inputs_init(struct inputs *s, struct env *env, const struct job *job,
                 void (*on_change)(void *context), void *context)
{
    *s = (struct inputs){.env = env,
                         .job = job,
                         .on_change = on_change,
                         .context = context,
                         .list = {.run = list_run, .done = list_done},
                         .list_status = 1};
}
