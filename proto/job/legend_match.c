/* legend_match.c: gives the names of a job the numbers that they have in the tables.
 *
 * 1. No two names of a list are alike, and no two numbers. [assert: numbers_give]
 * 2. A name keeps its number whatever names come, go or change places. While the list has the name,
 *    in the present job or not, no other name gets the number. [test: legend_keep_their_numbers] */
#include "proto/job/legend_inner.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct match {
    const struct legend *was;
    struct legend *is;
    char *const *fresh;
    size_t fresh_count;
    bool same;
    char differ[ERR_TEXT_MAX / 2]; /* the differences, in words */
    char advice[ERR_TEXT_MAX / 4]; /* names for `fresh` */
    char whole[ERR_TEXT_MAX / 4];  /* the tables of all these names; many: the names did not fit */
    bool many;
    uint32_t differs;
};

static bool network(enum legend_list list)
{
    return list == LEGEND_TENSORS || list == LEGEND_STATISTICS;
}

bool legend_whole_table(const char *word, const char *table)
{
    size_t bytes = strlen(table);
    return bytes > 0 && strncmp(word, table, bytes) == 0 && strcmp(word + bytes, ":*") == 0;
}

/* True when `fresh` has the name, its whole table or the whole network. was: the tables' entry of
 * the name; NULL: they have none. */
static bool is_fresh(const struct match *m, enum legend_list list, const char *name,
                     const struct legend_name *was)
{
    for (size_t i = 0; i < m->fresh_count; i++)
        if (strcmp(m->fresh[i], name) == 0 ||
            (network(list) && strcmp(m->fresh[i], "dense") == 0) ||
            (was != NULL && legend_whole_table(m->fresh[i], was->table)))
            return true;
    return false;
}

/* Adds a word to the list of so many bytes, unless it is there. */
static bool advice_add(char *advice, size_t room, const char *word)
{
    char quoted[LEGEND_NAME + 8];
    bool plain = strchr(word, '*') == NULL;
    (void)snprintf(quoted, sizeof quoted, plain ? "%s" : "\"%s\"", word);
    size_t named = strlen(advice), bytes = strlen(quoted);
    for (const char *at = advice; (at = strstr(at, quoted)) != NULL; at += bytes)
        if ((at == advice || at[-1] == ' ') && (at[bytes] == 0 || at[bytes] == ','))
            return true;
    int n = snprintf(advice + named, room - named, "%s%s", text_if(named > 0, ", "), quoted);
    if (n >= 0 && named + (size_t)n < room)
        return true;
    advice[named] = 0;
    return false;
}

/* Notes a difference for the message at the end; LEGEND_LISTS: a key of the job. Of many
 * differences the message has the first ones, and the advice then names whole tables. */
static void differ(struct match *m, enum legend_list list, const struct legend_name *x,
                   const char *how, const char *it_was)
{
    char whole[LIMIT_NAME + 2] = "dense";
    if (list == LEGEND_LISTS)
        text_copy(whole, sizeof whole, x->name);
    size_t said = strlen(m->differ);
    int n =
        snprintf(m->differ + said, sizeof m->differ - said, "%s%s%s %s%s", text_if(said > 0, "; "),
                 text_if(list == LEGEND_FIELDS, "field "), x->name, how, it_was);
    if (n < 0 || said + (size_t)n >= sizeof m->differ)
        m->differ[said] = 0;
    uint32_t at = LEGEND_NONE;
    if (list == LEGEND_FIELDS) /* the table of its rows */
        at = legend_find(m->was, list, x->name);
    if (at != LEGEND_NONE)
        (void)snprintf(whole, sizeof whole, "%s:*", m->was->name[list][at].table);
    m->many |= !advice_add(m->advice, sizeof m->advice, x->name);
    (void)advice_add(m->whole, sizeof m->whole, whole);
    m->differs++;
}

/* The name's entry in the tables' legend, or NULL. */
static const struct legend_name *former(const struct match *m, enum legend_list list,
                                        const char *name)
{
    uint32_t at = legend_find(m->was, list, name);
    if (at == LEGEND_NONE)
        return NULL;
    return &m->was->name[list][at];
}

/* Numeric inputs are sorted by their numbers, so it is enough that both legends have the same
 * ones. */
static bool same_numbers(const struct match *m)
{
    uint32_t more = 0;
    for (uint32_t i = 0; i < m->was->count[LEGEND_NUMBERS]; i++)
        more += m->was->name[LEGEND_NUMBERS][i].here;
    for (uint32_t i = 0; i < m->is->count[LEGEND_NUMBERS]; i++) {
        const struct legend_name *is = &m->is->name[LEGEND_NUMBERS][i];
        const struct legend_name *was = former(m, LEGEND_NUMBERS, is->name);
        if (was == NULL || !was->here || strcmp(was->what, is->what) != 0 || more-- == 0)
            return false;
    }
    return more == 0;
}

/* True when a tensor means the same. Its shape may say that its places stand for columns of the
 * input, for numbers, or for labels. */
static bool means_the_same(const struct match *m, const struct legend_name *was,
                           const struct legend_name *is)
{
    if (strcmp(was->what, is->what) != 0)
        return false;
    if (strstr(is->what, "numbers") != NULL && !same_numbers(m))
        return false;
    if (strstr(is->what, "input") != NULL && strcmp(m->was->input, m->is->input) != 0)
        return false;
    return strstr(is->what, "labels") == NULL || strcmp(m->was->labels, m->is->labels) == 0;
}

static void one_match(struct match *m, enum legend_list list, struct legend_name *x)
{
    const struct legend_name *was = former(m, list, x->name);
    bool anew = is_fresh(m, list, x->name, was);
    char text[2 * LEGEND_WHAT + 16];
    if (was == NULL) {
        if (!anew && (m->same || network(list)))
            differ(m, list, x, "is new", "");
        return;
    }
    x->number = was->number;
    if (anew && !m->same)
        return;
    if (network(list) && !was->here) {
        differ(m, list, x, "is new", "");
        return;
    }
    if (list == LEGEND_FIELDS && strcmp(was->table, x->table) != 0) {
        text_copy(text, sizeof text, was->table);
        differ(m, list, x, "had its rows in table ", text);
    } else if (list == LEGEND_FIELDS && strcmp(was->what, x->what) != 0) {
        (void)snprintf(text, sizeof text, "%s, it was %s", x->what, was->what);
        differ(m, list, x, "is ", text);
    } else if (list == LEGEND_FIELDS && legend_whole_differs(m->was, m->is, x->name) != NULL) {
        differ(m, list, x, legend_whole_differs(m->was, m->is, x->name), "");
    } else if (network(list) && !means_the_same(m, was, x)) {
        if (strcmp(was->what, x->what) == 0)
            (void)snprintf(text, sizeof text, "%s of other columns", x->what);
        else
            (void)snprintf(text, sizeof text, "%s, it was %s", x->what, was->what);
        differ(m, list, x, "is ", text);
    }
}

/* Two kinds of models may have the same tensors with another meaning: then the whole network begins
 * anew, or the job is refused. Returns true when the kinds differ and the message says so. */
static bool kind_differs(struct match *m)
{
    const char *was = m->was->model, *is = m->is->model;
    if (was[0] == 0 || strcmp(was, is) == 0 ||
        (!m->same && is_fresh(m, LEGEND_TENSORS, "dense", NULL)))
        return false;
    (void)snprintf(m->differ, sizeof m->differ, "model.kind is %s, it was %s", is, was);
    (void)advice_add(m->advice, sizeof m->advice, "dense");
    (void)advice_add(m->whole, sizeof m->whole, "dense");
    m->differs++;
    return true;
}

/* A job that resumes, or only reads, must have exactly the same input and labels. */
static void input_differs(struct match *m)
{
    static const struct legend_name input = {.name = "the input"}, labels = {.name = "data.label"};
    if (strcmp(m->was->input, m->is->input) != 0)
        differ(m, LEGEND_TENSORS, &input, "is of other columns: it was ", m->was->input);
    if (strcmp(m->was->labels, m->is->labels) != 0)
        differ(m, LEGEND_TENSORS, &labels, "was ", m->was->labels);
}

/* True when a field that goes on with rows is there. */
static bool rows_go_on(const struct match *m)
{
    bool on = false;
    for (uint32_t i = 0; i < m->is->count[LEGEND_FIELDS]; i++) {
        const char *name = m->is->name[LEGEND_FIELDS][i].name;
        const struct legend_name *was = former(m, LEGEND_FIELDS, name);
        on |= was != NULL && (m->same || !is_fresh(m, LEGEND_FIELDS, name, was));
    }
    return on;
}

/* A word more or less in these keys gives cells or labels another meaning. A job that only reads
 * needs no labels, and one that resumes has compared them (job_same.c). */
static void words_differ(struct match *m)
{
    for (uint32_t r = LEGEND_MISSING; r <= LEGEND_POSITIVE; r++) {
        const char *key = legend_words_differ(m->was, m->is, (enum legend_reading)r);
        struct legend_name x = {.number = LEGEND_NONE};
        char how[ERR_TEXT_MAX / 2];
        bool on =
            rows_go_on(m) || (r == LEGEND_POSITIVE && !is_fresh(m, LEGEND_TENSORS, "dense", NULL));
        if (key == NULL || (m->same && r == LEGEND_POSITIVE) || !on)
            continue;
        text_copy(x.name, sizeof x.name, key);
        if (!m->same && is_fresh(m, LEGEND_LISTS, key, NULL))
            continue;
        (void)snprintf(
            how, sizeof how, "is [%.80s], it was [%.80s]%s", m->is->reading[r], m->was->reading[r],
            text_if(!m->same, ": fresh with this key goes on with the rows as they are"));
        differ(m, LEGEND_LISTS, &x, how, "");
    }
}

/* Legends have the names of labels with ", " between them. */
static uint32_t labels_of(const struct legend *n)
{
    uint32_t labels = n->labels[0] != '\0';
    for (const char *at = n->labels; (at = strstr(at, ", ")) != NULL; at += 2)
        labels++;
    return MIN(labels, LIMIT_TASKS);
}

/* Rows and network of a label of 0 and 1 add up to the logarithm of odds, those of a number to the
 * number itself. mse and huber predict the same number. Labels are compared by their places. */
static void loss_differs(struct match *m)
{
    static const struct legend_name key = {.name = LEGEND_LOSS};
    uint32_t both = MIN(labels_of(m->was), labels_of(m->is)), label = 0;
    uint32_t other = (m->was->real ^ m->is->real) & ((1u << both) - 1);
    bool on = m->same || rows_go_on(m) || !is_fresh(m, LEGEND_TENSORS, "dense", NULL);
    bool agreed = !m->same && is_fresh(m, LEGEND_LISTS, key.name, NULL);
    char how[128];
    if (other == 0 || !on || agreed)
        return;
    while ((other >> label & 1) == 0)
        label++;
    bool number = (m->is->real >> label & 1) != 0;
    (void)snprintf(how, sizeof how, "makes label %u %s, it was %s%s", label + 1,
                   number ? "a number" : "0 or 1", number ? "0 or 1" : "a number",
                   text_if(!m->same, ": fresh with this key goes on with the rows and the network "
                                     "as they are"));
    differ(m, LEGEND_LISTS, &key, how, "");
}

static void left_over(struct match *m, enum legend_list list, const struct legend_name *was)
{
    if (was->here && (m->same || (network(list) && !is_fresh(m, list, was->name, was))))
        differ(m, list, was, "is left over", "");
}

uint32_t legend_numbers(const struct legend *n, enum legend_list list, uint16_t out[LIMIT_FIELDS])
{
    bool taken[LIMIT_FIELDS] = {false};
    uint32_t next = 0, count = 0;
    for (uint32_t i = 0; i < n->count[list]; i++) {
        uint32_t number = n->name[list][i].number;
        if (number >= LIMIT_FIELDS)
            continue;
        taken[number] = true;
        if (number >= next)
            next = number + 1;
    }
    for (uint32_t i = next; i < LIMIT_FIELDS; i++)
        out[count++] = (uint16_t)i;
    for (uint32_t i = 0; i < next; i++)
        if (!taken[i])
            out[count++] = (uint16_t)i;
    return count;
}

int legend_full(enum legend_list list, uint32_t names, struct err *e)
{
    return err_set(e, SHOAL_E_CONFIG,
                   "with the new ones these tables have %u %s, gone ones counted, and at most %u "
                   "are told apart: forget some that have gone (shoal drop)",
                   names, legend_list_key[list], LIMIT_FIELDS);
}

/* Gives new names the next numbers; a name that is gone keeps its number, and its rows if it is a
 * field. */
static int numbers_give(struct match *m, enum legend_list list, struct err *e)
{
    struct legend *is = m->is;
    uint16_t number[LIMIT_FIELDS];
    uint32_t left = legend_numbers(m->was, list, number), given = 0;
    for (uint32_t i = 0; i < is->count[list]; i++) {
        if (is->name[list][i].number != LEGEND_NONE)
            continue;
        if (given < left)
            is->name[list][i].number = number[given];
        given++;
    }
    if (given > left)
        return legend_full(list, LIMIT_FIELDS - left + given, e);
    for (uint32_t i = 0; i < m->was->count[list]; i++) {
        struct legend_name gone = m->was->name[list][i];
        gone.here = false;
        if (legend_find(is, list, gone.name) == LEGEND_NONE &&
            legend_append(is, list, &gone, e) != 0)
            return SHOAL_E_NOMEM;
    }
    for (uint32_t i = 0; i < is->count[list]; i++)
        for (uint32_t k = 0; k < i; k++)
            SHOAL_ASSERT(is->name[list][i].number != is->name[list][k].number); /* 1. */
    return 0;
}

/* True when the list has the name, in the tables or in the job. */
static bool in_list(const struct match *m, enum legend_list list, const char *name)
{
    return legend_find(m->was, list, name) != LEGEND_NONE ||
           legend_find(m->is, list, name) != LEGEND_NONE;
}

/* True when the field's rows were another field's, and still are. */
static bool rows_elsewhere(const struct match *m, const char *name)
{
    uint32_t at = legend_find(m->was, LEGEND_FIELDS, name),
             now = legend_find(m->is, LEGEND_FIELDS, name);
    const char *was = "";
    if (at != LEGEND_NONE)
        was = m->was->name[LEGEND_FIELDS][at].what;
    return strstr(was, ", rows of ") != NULL &&
           (now == LEGEND_NONE || strcmp(m->is->name[LEGEND_FIELDS][now].what, was) == 0);
}

/* The first tensor that reads numbers, alone or with the whole input. */
static const char *reader_of_numbers(const struct legend *n)
{
    for (uint32_t i = 0; i < n->count[LEGEND_TENSORS]; i++) {
        const struct legend_name *x = &n->name[LEGEND_TENSORS][i];
        if (strstr(x->what, "numbers") != NULL || strstr(x->what, "input") != NULL)
            return x->name;
    }
    return "dense";
}

static bool is_table(const struct legend *n, const char *word)
{
    for (uint32_t i = 0; i < n->count[LEGEND_FIELDS]; i++)
        if (legend_whole_table(word, n->name[LEGEND_FIELDS][i].table))
            return true;
    return false;
}

/* A name in `fresh` that no list has is an error: the job must not report a fresh start that does
 * not happen. */
static int fresh_check(const struct match *m, struct err *e)
{
    for (size_t i = 0; i < m->fresh_count; i++) {
        const char *name = m->fresh[i];
        bool known = strcmp(name, "dense") == 0 || legend_is_reading(name) ||
                     is_table(m->was, name) || in_list(m, LEGEND_FIELDS, name) ||
                     in_list(m, LEGEND_TENSORS, name) || in_list(m, LEGEND_STATISTICS, name);
        if (!known && in_list(m, LEGEND_NUMBERS, name))
            return err_set(e, SHOAL_E_CONFIG,
                           "fresh names %.80s, a number, which has no rows: name the tensors that "
                           "read it, such as %s",
                           name, reader_of_numbers(m->is));
        if (!known)
            return err_set(e, SHOAL_E_CONFIG,
                           "fresh names %.80s, which is no field and no tensor, there or here; "
                           "`dense` is the whole network, TABLE:* all fields of a table",
                           name);
        if (rows_elsewhere(m, name))
            return err_set(e, SHOAL_E_CONFIG,
                           "fresh names %.80s, whose rows are another column's "
                           "(data.columns: share): name that one",
                           name);
    }
    return 0;
}

/* Where columns have no names, the label's place determines the names of all others. */
static int place_check(const struct legend *was, const struct legend *is, struct err *e)
{
    if (was->place[0] == 0 || is->place[0] == 0 || strcmp(was->place, is->place) == 0)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "the columns have no names and are called by their places, and the label is in "
                   "place %s, it was in %s: others would be taken for those that the tables know; "
                   "put it there, or name the columns (data.columns)",
                   is->place, was->place);
}

int legend_match(const struct legend *was, struct legend *is, char *const *fresh,
                 size_t fresh_count, bool same, struct err *e)
{
    struct match m = {
        .was = was, .is = is, .fresh = fresh, .fresh_count = fresh_count, .same = same};
    bool known = legend_known(was);
    int rc = 0;
    if (known)
        rc = place_check(was, is, e);
    if (known && rc == 0)
        rc = fresh_check(&m, e);
    bool other = known && rc == 0 && kind_differs(&m);
    if (known && rc == 0 && same)
        input_differs(&m);
    if (known && rc == 0)
        words_differ(&m);
    if (known && rc == 0)
        loss_differs(&m);
    for (uint32_t l = 0; known && rc == 0 && l < LEGEND_LISTS; l++) {
        enum legend_list list = (enum legend_list)l;
        if (other && network(list))
            continue;
        for (uint32_t i = 0; i < is->count[l]; i++)
            one_match(&m, list, &is->name[l][i]);
        for (uint32_t i = 0; i < was->count[l]; i++)
            if (legend_find(is, list, was->name[l][i].name) == LEGEND_NONE)
                left_over(&m, list, &was->name[l][i]);
    }
    if (rc == 0 && m.differs > 0 && same)
        return err_set(e, SHOAL_E_CONFIG, "the model is not the one of the tables: %s", m.differ);
    if (rc == 0 && m.differs > 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "the model is not the one of the tables: %s: set "
                       "it back, or begin these anew: add to fresh: [%s]",
                       m.differ, m.many ? m.whole : m.advice);
    for (uint32_t l = 0; rc == 0 && l < LEGEND_LISTS; l++)
        rc = numbers_give(&m, (enum legend_list)l, e);
    if (rc != 0 || !known)
        return rc;
    if (is->reading[LEGEND_MISSING] == NULL && legend_reading_copy(was, is, e) != 0)
        return SHOAL_E_NOMEM;
    return legend_figures_match(was, is, e);
}

int legend_agrees(const struct legend *was, const struct legend *is, char *const *fresh,
                  size_t fresh_count, bool same, struct err *e)
{
    struct legend own;
    int rc = legend_copy(is, &own, e);
    if (rc != 0)
        return rc;
    for (uint32_t l = 0; l < LEGEND_LISTS; l++) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < own.count[l]; i++) {
            own.name[l][i].number = LEGEND_NONE;
            if (is->name[l][i].here)
                own.name[l][kept++] = own.name[l][i];
        }
        own.count[l] = kept;
    }
    rc = legend_match(was, &own, fresh, fresh_count, same, e);
    for (uint32_t l = 0; l < LEGEND_LISTS && rc == 0; l++) {
        if (own.count[l] != is->count[l])
            rc = err_set(e, SHOAL_E_CONFIG, "%u names of %s are told, there are %u", is->count[l],
                         legend_list_key[l], own.count[l]);
        for (uint32_t i = 0; i < is->count[l] && rc == 0; i++) {
            const struct legend_name *x = &is->name[l][i];
            uint32_t at = legend_find(&own, (enum legend_list)l, x->name);
            if (at == LEGEND_NONE || own.name[l][at].number != x->number)
                rc = err_set(e, SHOAL_E_CONFIG,
                             "%s has number %u there and another here: run the same release "
                             "everywhere",
                             x->name, x->number);
        }
    }
    legend_free(&own);
    return rc;
}
