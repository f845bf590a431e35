/* legend.c: names and the numbers that belong to them.
 *
 * 1. No two names of a list are alike, and no two numbers. [assert: numbers_give]
 * 2. legend_parse reads exactly what legend_put wrote, and a text keeps all its other lines. [test:
 *    legend_come_back_as_they_were]
 * 3. A name keeps its number whatever names come, go or change places. While the list has the name,
 *    in the present job or not, no other name gets the number. [test: legend_keep_their_numbers] */
#include "proto/job/legend.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE "names: "

static const char *const list_key[LEGEND_LISTS] = {"fields", "numbers", "tensors", "statistics"};

void legend_free(struct legend *n)
{
    for (uint32_t l = 0; l < LEGEND_LISTS; l++)
        free(n->name[l]);
    free(n->input);
    free(n->labels);
    memset(n, 0, sizeof *n);
}

uint32_t legend_find(const struct legend *n, enum legend_list list, const char *name)
{
    for (uint32_t i = 0; i < n->count[list]; i++)
        if (strcmp(n->name[list][i].name, name) == 0)
            return i;
    return LEGEND_NONE;
}

/* ---- adding ---------------------------------------------------------------------------------- */

void legend_write(const char *name, size_t bytes, uint32_t which, char out[LEGEND_NAME])
{
    size_t shown = MIN(bytes, (size_t)LIMIT_NAME - 1);
    (void)snprintf(out, LEGEND_NAME, "%.*s", (int)shown, name);
    struct json *j = json_new_string(out);
    bool whole = strlen(out) == bytes && strcmp(json_as_string(j, ""), out) == 0;
    json_free(j);
    for (char *p = out; *p != 0; p++) {
        whole &= (unsigned char)*p >= 0x20 && *p != 0x7f;
        if (!whole && ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f))
            *p = '?';
    }
    /* this also covers the bytes before the first illegal one */
    for (char *p = out; *p != 0 && !whole; p++)
        if ((unsigned char)*p >= 0x7f)
            *p = '?';
    size_t end = strlen(out);
    if (!whole) {
        end = MIN(end, (size_t)40);
        end += (size_t)snprintf(out + end, LEGEND_NAME - end, "~%016" PRIx64,
                                hash_bytes(name, bytes, 0));
    }
    if (which > 1)
        (void)snprintf(out + end, LEGEND_NAME - end, "#%u", which);
}

static int legend_append(struct legend *n, enum legend_list list, const struct legend_name *x,
                         struct err *e)
{
    if (array_room(&n->name[list], n->count[list], &n->room[list], 32) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    n->name[list][n->count[list]++] = *x;
    return 0;
}

int legend_add(struct legend *n, enum legend_list list, const char *name, const char *table,
               const char *what, struct err *e)
{
    struct legend_name x = {.number = LEGEND_NONE, .here = true};
    SHOAL_ASSERT(strlen(name) < sizeof x.name && strlen(table) < sizeof x.table &&
                 strlen(what) < sizeof x.what);
    if (legend_find(n, list, name) != LEGEND_NONE)
        return err_set(e, SHOAL_E_CONFIG,
                       "two of the %s are called %s: give one of them another name", list_key[list],
                       name);
    text_copy(x.name, sizeof x.name, name);
    text_copy(x.table, sizeof x.table, table);
    text_copy(x.what, sizeof x.what, what);
    return legend_append(n, list, &x, e);
}

/* ---- the line -------------------------------------------------------------------------------- */

bool legend_line(const char *text, size_t bytes, size_t *at, size_t *line_bytes)
{
    size_t word = sizeof LINE - 2; /* without the blank */
    for (size_t i = 0; i < bytes;) {
        size_t length = text_line(text + i, bytes - i);
        if (length >= word && memcmp(text + i, LINE, word) == 0) {
            *at = i;
            *line_bytes = length;
            return true;
        }
        i += length + 1;
    }
    return false;
}

static int list_parse(const struct json *j, enum legend_list list, struct legend *out,
                      struct err *e)
{
    int rc = 0;
    if (json_members(j) > LIMIT_FIELDS)
        return err_set(e, SHOAL_E_CONFIG, "names: more than %u %s", LIMIT_FIELDS, list_key[list]);
    for (size_t i = 0; i < json_members(j) && rc == 0; i++) {
        const struct json *v = json_member_at(j, i);
        struct legend_name x = {.here = true};
        const char *name = json_member_name(j, i);
        size_t at = 1; /* a field has a table, too */
        int64_t number = json_as_int(json_array_at(v, 0), -1);
        const char *table = "";
        if (list == LEGEND_FIELDS)
            table = json_as_string(json_array_at(v, at++), NULL);
        const char *what = json_as_string(json_array_at(v, at), NULL);
        if (strlen(name) >= sizeof x.name || number < 0 || number >= LIMIT_FIELDS ||
            table == NULL || strlen(table) >= sizeof x.table || what == NULL ||
            strlen(what) >= sizeof x.what)
            return err_set(e, SHOAL_E_CONFIG, "names.%s.%.80s is not as the coordinator writes it",
                           list_key[list], name);
        text_copy(x.name, sizeof x.name, name);
        text_copy(x.table, sizeof x.table, table);
        text_copy(x.what, sizeof x.what, what);
        x.number = (uint32_t)number;
        x.here = json_absent(json_array_at(v, at + 1));
        for (uint32_t k = 0; k < out->count[list]; k++)
            if (out->name[list][k].number == x.number ||
                strcmp(out->name[list][k].name, x.name) == 0)
                return err_set(e, SHOAL_E_CONFIG, "names.%s: number %u, %.80s, is there twice",
                               list_key[list], x.number, name);
        rc = legend_append(out, list, &x, e);
    }
    return rc;
}

int legend_parse(const char *line, size_t bytes, struct legend *out, struct err *e)
{
    struct json *j = NULL;
    memset(out, 0, sizeof *out);
    size_t word = sizeof LINE - 1;
    if (bytes > LEGEND_BYTES_MAX || bytes < word || memcmp(line, LINE, word) != 0 ||
        json_parse(line + word, bytes - word, &j, e) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "names: the coordinator writes this line; take it out, or leave it as it "
                       "was");
    int rc = 0;
    if (json_get_string(j, "input", NULL) == NULL)
        rc = err_set(e, SHOAL_E_CONFIG, "names: the coordinator writes them otherwise");
    for (uint32_t l = 0; l < LEGEND_LISTS && rc == 0; l++)
        rc = list_parse(json_get(j, list_key[l]), (enum legend_list)l, out, e);
    out->input = strdup(json_get_string(j, "input", ""));
    out->labels = strdup(json_get_string(j, "labels", ""));
    text_copy(out->model, sizeof out->model, json_get_string(j, "model", ""));
    out->learnt = json_get_bool(j, "learnt", false);
    text_copy(out->place, sizeof out->place, json_get_string(j, "place", ""));
    int64_t columns = json_get_int(j, "columns", 0);
    out->columns = 0;
    if (columns > 0 && columns <= UINT16_MAX)
        out->columns = (uint32_t)columns;
    if (rc == 0 && (out->input == NULL || out->labels == NULL))
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    json_free(j);
    if (rc != 0)
        legend_free(out);
    return rc;
}

static struct json *list_json(const struct legend *n, enum legend_list list)
{
    struct json *j = json_new_object();
    for (uint32_t i = 0; i < n->count[list]; i++) {
        const struct legend_name *x = &n->name[list][i];
        struct json *v = json_new_array();
        (void)json_append(v, json_new_int(x->number));
        if (list == LEGEND_FIELDS)
            (void)json_append_string(v, x->table);
        (void)json_append_string(v, x->what);
        if (!x->here)
            (void)json_append_string(v, "gone");
        (void)json_set(j, x->name, v);
    }
    return j;
}

static char *line_text(const struct legend *n)
{
    struct json *j = json_new_object();
    (void)json_set(j, list_key[LEGEND_FIELDS], list_json(n, LEGEND_FIELDS));
    (void)json_set(j, list_key[LEGEND_NUMBERS], list_json(n, LEGEND_NUMBERS));
    (void)json_set_string(j, "input", n->input);
    (void)json_set_string(j, "labels", n->labels);
    (void)json_set_string(j, "model", n->model);
    if (n->learnt)
        (void)json_set_bool(j, "learnt", true);
    if (n->place[0] != 0) {
        (void)json_set_string(j, "place", n->place);
        (void)json_set_int(j, "columns", n->columns);
    }
    (void)json_set(j, list_key[LEGEND_TENSORS], list_json(n, LEGEND_TENSORS));
    (void)json_set(j, list_key[LEGEND_STATISTICS], list_json(n, LEGEND_STATISTICS));
    char *text = json_text(j, 0);
    json_free(j);
    return text;
}

int legend_put(const char *text, size_t bytes, const struct legend *n, char **out,
               size_t *out_bytes, struct err *e)
{
    size_t at = bytes, old = 0, fresh = 0;
    char *line = NULL;
    if (n != NULL && legend_known(n)) {
        line = line_text(n);
        if (line == NULL)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
        fresh = strlen(line);
    }
    if (fresh + sizeof LINE > LEGEND_BYTES_MAX) {
        free(line);
        return err_set(e, SHOAL_E_TOO_BIG,
                       "the names of the job's fields and tensors take %zu bytes, at most %u are "
                       "possible: give the columns shorter names, or take fewer of them",
                       fresh, LEGEND_BYTES_MAX);
    }
    if (legend_line(text, bytes, &at, &old))
        old += at + old < bytes; /* the line's end */
    char *made = malloc(bytes + fresh + sizeof LINE + 3);
    if (made == NULL) {
        free(line);
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    memcpy(made, text, at);
    memcpy(made + at, text + at + old, bytes - at - old);
    size_t count = bytes - old;
    if (line != NULL)
        count += (size_t)snprintf(made + count, fresh + sizeof LINE + 2, "%s" LINE "%s\n",
                                  text_if(count > 0 && made[count - 1] != '\n', "\n"), line);
    made[count] = 0;
    free(line);
    *out = made;
    *out_bytes = count;
    return 0;
}

/* ---- matching -------------------------------------------------------------------------------- */

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

/* Notes a difference for the message at the end. Of many differences the message has the first
 * ones, and the advice then names whole tables. */
static void differ(struct match *m, enum legend_list list, const struct legend_name *x,
                   const char *how, const char *it_was)
{
    char whole[LIMIT_NAME + 2] = "dense";
    size_t said = strlen(m->differ);
    int n =
        snprintf(m->differ + said, sizeof m->differ - said, "%s%s%s %s%s", text_if(said > 0, "; "),
                 text_if(list == LEGEND_FIELDS, "field "), x->name, how, it_was);
    if (n < 0 || said + (size_t)n >= sizeof m->differ)
        m->differ[said] = 0;
    uint32_t at = legend_find(m->was, list, x->name); /* a field: the table of its rows */
    if (list == LEGEND_FIELDS && at != LEGEND_NONE)
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
    char text[96];
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
                   names, list_key[list], LIMIT_FIELDS);
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
        bool known = strcmp(name, "dense") == 0 || is_table(m->was, name) ||
                     in_list(m, LEGEND_FIELDS, name) || in_list(m, LEGEND_TENSORS, name) ||
                     in_list(m, LEGEND_STATISTICS, name);
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
    return rc;
}

int legend_copy(const struct legend *from, struct legend *to, struct err *e)
{
    int rc = 0;
    memset(to, 0, sizeof *to);
    for (uint32_t l = 0; l < LEGEND_LISTS && rc == 0; l++)
        for (uint32_t i = 0; i < from->count[l] && rc == 0; i++)
            rc = legend_append(to, (enum legend_list)l, &from->name[l][i], e);
    if (rc == 0 && legend_known(from)) {
        to->input = strdup(from->input);
        to->labels = strdup(from->labels);
        memcpy(to->model, from->model, sizeof to->model);
        to->learnt = from->learnt;
        memcpy(to->place, from->place, sizeof to->place);
        to->columns = from->columns;
        if (to->input == NULL || to->labels == NULL)
            rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    if (rc != 0)
        legend_free(to);
    return rc;
}

void legend_remove(struct legend *n, enum legend_list list, const char *name)
{
    uint32_t at = legend_find(n, list, name);
    if (at == LEGEND_NONE)
        return;
    memmove(&n->name[list][at], &n->name[list][at + 1],
            (n->count[list] - at - 1) * sizeof n->name[list][0]);
    n->count[list]--;
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
                         list_key[l], own.count[l]);
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
