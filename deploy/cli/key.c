/* key.c: field and value -> key. */
#include "deploy/cli/key.h"
#include "deploy/cli/child.h"
#include "proto/base/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The job file, or false. */
static bool job_path(const struct key_place *at, char out[LIMIT_PATH])
{
    if (at->job != NULL)
        (void)snprintf(out, LIMIT_PATH, "%s", at->job);
    else if (at->run_dir != NULL)
        (void)snprintf(out, LIMIT_PATH, "%s/job.yaml", at->run_dir);
    else
        return false;
    return at->job != NULL || access(out, R_OK) == 0;
}

/* What `shoal-worker fields` says. */
static int fields_ask(const char *job, const char *field, const char *value, struct json **out,
                      struct err *e)
{
    const char *argv[] = {"shoal-worker", "fields",  "--config", job, "--field",
                          field,          "--value", value,      NULL};
    char *text = NULL;
    size_t bytes = 0;
    if (field == NULL)
        argv[4] = NULL;
    int rc = child_output(argv, &text, &bytes, e);
    if (rc == 0)
        rc = json_parse(text, bytes, out, e);
    free(text);
    return rc;
}

static int key_of(const struct key_place *at, const char *field, const char *value, uint64_t *key,
                  struct err *e)
{
    char job[LIMIT_PATH], *end;
    struct json *answer = NULL;
    unsigned long number = strtoul(field, &end, 10);
    bool by_number = end != field && *end == 0 && number < LIMIT_FIELDS;
    if (!job_path(at, job)) {
        if (!by_number)
            return err_set(e, SHOAL_E_USAGE,
                           "field %s: names of fields are in the job file; give --job JOB.yaml, or "
                           "the field's number",
                           field);
        *key = key_of_value((uint32_t)number, value, strlen(value));
        return 0;
    }
    int rc = fields_ask(job, field, value, &answer, e);
    if (rc == 0)
        *key = strtoull(json_as_string(json_get(answer, "key"), "0"), NULL, 16);
    json_free(answer);
    return rc;
}

int key_take(const struct key_place *at, const char *word, const char *field, const char *value,
             uint64_t *key, struct err *e)
{
    char name[LIMIT_NAME + 1], *end;
    if (word == NULL)
        return field != NULL && value != NULL
                   ? key_of(at, field, value, key, e)
                   : err_set(e, SHOAL_E_USAGE, "name a key, or --field NAME and --value TEXT");
    if (field != NULL || value != NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "a key %s and --field or --value: one of the two says which row", word);
    uint64_t x = strtoull(word, &end, 0);
    if (end != word && *end == 0) {
        *key = x;
        return 0;
    }
    const char *colon = strchr(word, ':');
    if (colon == NULL || colon == word || colon - word > (long)LIMIT_NAME)
        return err_set(
            e, SHOAL_E_USAGE,
            "%s is neither a key (0x... or decimal) nor FIELD:VALUE (such as C3:68fd1e64)", word);
    (void)snprintf(name, sizeof name, "%.*s", (int)(colon - word), word);
    return key_of(at, name, colon + 1, key, e);
}

struct key_place key_place(const struct option_line *o)
{
    return (struct key_place){option_text(o, "job"), option_text(o, "run-dir")};
}

int key_option(const struct option_line *o, uint64_t *key, struct err *e)
{
    struct key_place place = key_place(o);
    return key_take(&place, o->words > 1 ? o->word[1] : NULL, option_text(o, "field"),
                    option_text(o, "value"), key, e);
}

struct json *key_fields(const struct key_place *at)
{
    char job[LIMIT_PATH];
    struct json *answer = NULL, *fields = NULL;
    if (job_path(at, job) && fields_ask(job, NULL, NULL, &answer, NULL) == 0)
        fields = json_hold(json_get(answer, "fields"));
    json_free(answer);
    return fields;
}

/* What is told of a field; NULL: nothing. */
static const struct json *field_of(const struct json *fields, uint64_t number)
{
    for (size_t i = 0; i < json_count(fields); i++)
        if (json_as_int(json_get(json_array_at(fields, i), "field"), -1) == (int64_t)number)
            return json_array_at(fields, i);
    return NULL;
}

const char *key_field_name(const struct json *fields, uint64_t number)
{
    return json_as_string(json_get(field_of(fields, number), "name"), "");
}

bool key_field_is_id(const struct json *fields, uint64_t number)
{
    const char *kind = json_as_string(json_get(field_of(fields, number), "kind"), "");
    return strncmp(kind, "id", 2) == 0 || strncmp(kind, "multi id", 8) == 0;
}
