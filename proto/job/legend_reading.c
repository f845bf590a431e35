/* legend_reading.c: words of a job by which cells and labels mean something else than they say.
 * Rows were learnt by them, so a job that goes on with the rows has the same.
 *
 * 1. The readings of a legend are all known or none is. [assert: legend_reading_known] */
#include "proto/job/legend_inner.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const reading_key[LEGEND_READINGS] = {[LEGEND_MISSING] = "missing",
                                                         [LEGEND_POSITIVE] = "positive",
                                                         [LEGEND_WHOLE] = "whole",
                                                         [LEGEND_ENTRIES] = "entries"};

/* The keys of a job, by which `fresh` names a reading; for WHOLE a field is named. */
static const char *const job_key[LEGEND_READINGS] = {
    [LEGEND_MISSING] = "data.missing", [LEGEND_POSITIVE] = "data.label_positive"};

void legend_reading_free(struct legend *n)
{
    for (uint32_t r = 0; r < LEGEND_READINGS; r++) {
        free(n->reading[r]);
        n->reading[r] = NULL;
    }
}

static bool legend_reading_known(const struct legend *n)
{
    for (uint32_t r = 1; r < LEGEND_READINGS; r++)
        SHOAL_ASSERT((n->reading[r] != NULL) == (n->reading[0] != NULL)); /* 1 */
    return n->reading[0] != NULL;
}

int legend_reading_begin(struct legend *n, struct err *e)
{
    bool good = true;
    legend_reading_free(n);
    for (uint32_t r = 0; r < LEGEND_READINGS; r++)
        good &= (n->reading[r] = strdup("")) != NULL;
    if (good)
        return 0;
    legend_reading_free(n);
    return err_set(e, SHOAL_E_NOMEM, "out of memory");
}

int legend_reading_add(struct legend *n, enum legend_reading which, const char *word, struct err *e)
{
    char *was = n->reading[which], *now = NULL;
    if (asprintf(&now, "%s%s\"%s\"", was, text_if(was[0] != '\0', ", "), word) < 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    free(was);
    n->reading[which] = now;
    return 0;
}

int legend_reading_copy(const struct legend *from, struct legend *to, struct err *e)
{
    if (!legend_reading_known(from))
        return 0;
    legend_reading_free(to);
    for (uint32_t r = 0; r < LEGEND_READINGS; r++)
        if ((to->reading[r] = strdup(from->reading[r])) == NULL) {
            legend_reading_free(to);
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
        }
    return 0;
}

struct json *legend_reading_json(const struct legend *n)
{
    if (!legend_reading_known(n))
        return NULL;
    struct json *j = json_new_object();
    for (uint32_t r = 0; r < LEGEND_READINGS; r++)
        if (n->reading[r][0] != '\0')
            (void)json_set_string(j, reading_key[r], n->reading[r]);
    return j;
}

int legend_reading_parse(const struct json *j, struct legend *out, struct err *e)
{
    if (json_absent(j))
        return 0;
    int rc = legend_reading_begin(out, e);
    for (uint32_t r = 0; r < LEGEND_READINGS && rc == 0; r++) {
        char *text = strdup(json_get_string(j, reading_key[r], ""));
        if (text == NULL)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
        free(out->reading[r]);
        out->reading[r] = text;
    }
    return rc;
}

bool legend_is_reading(const char *word)
{
    for (uint32_t r = 0; r < LEGEND_READINGS; r++)
        if (job_key[r] != NULL && strcmp(job_key[r], word) == 0)
            return true;
    return strcmp(word, LEGEND_LOSS) == 0;
}

bool legend_reading_has(const struct legend *n, enum legend_reading which, const char *word)
{
    char quoted[LEGEND_NAME + 2];
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", word);
    return legend_reading_known(n) && strstr(n->reading[which], quoted) != NULL;
}

const char *legend_whole_differs(const struct legend *was, const struct legend *is,
                                 const char *name)
{
    bool whole = legend_reading_has(is, LEGEND_WHOLE, name);
    if (!legend_reading_known(was) || !legend_reading_known(is) ||
        legend_reading_has(was, LEGEND_WHOLE, name) == whole)
        return NULL;
    return whole ? "has whole: true, it had not" : "has no whole: true, it had";
}

/* The length of the first quoted word of a list. */
static size_t word_bytes(const char *list)
{
    const char *end = strstr(list, "\", \"");
    return end != NULL ? (size_t)(end - list) + 1 : strlen(list);
}

static const char *word_next(const char *word)
{
    word += word_bytes(word);
    return word + strspn(word, ", ");
}

/* True when the other list has all words of the list, in any order. */
static bool words_within(const char *list, const char *other)
{
    bool within = true;
    for (const char *a = list; *a != '\0'; a = word_next(a)) {
        const char *b = other;
        while (*b != '\0' && (word_bytes(a) != word_bytes(b) || memcmp(a, b, word_bytes(a)) != 0))
            b = word_next(b);
        within &= *b != '\0';
    }
    return within;
}

const char *legend_words_differ(const struct legend *was, const struct legend *is,
                                enum legend_reading which)
{
    if (!legend_reading_known(was) || !legend_reading_known(is) ||
        (words_within(was->reading[which], is->reading[which]) &&
         words_within(is->reading[which], was->reading[which])))
        return NULL;
    return job_key[which];
}
