/* config_check.c: checks entries against the known keys: the legal texts of values, and the errors
 * for others.
 *
 * 1. After config_entries_check every entry has its key, and its value parses as the key's type and
 *    lies in its range: getters (config_get.c) parse the same text by the same functions, which
 *    cannot fail. [assert: config_int, config_float, config_bool, config_size, config_enum] [test:
 *    job_numbers_are_read_as_they_were_checked, job_wrong_values_are_refused]
 * 2. Every refusal names the place and the key; for an unknown key the nearest known one, or one of
 *    those below it. [test: job_unknown_key_names_line_and_nearest,
 *    job_wrong_values_are_refused] */
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/config_inner.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LARGEST 9e18 /* bytes or ms: fits 63 bits */
#define PLACE_BYTES (LIMIT_PATH + 16)

/* ---- values ---------------------------------------------------------------------------------- */

bool config_size_parse(const char *text, double *out)
{
    static const struct {
        const char *suffix;
        double factor;
    } unit[] = {{"", 1},
                {"k", 1e3},
                {"M", 1e6},
                {"G", 1e9},
                {"T", 1e12},
                {"kB", 1e3},
                {"MB", 1e6},
                {"GB", 1e9},
                {"TB", 1e12},
                {"KiB", 1024.0},
                {"MiB", 1048576.0},
                {"GiB", 1073741824.0},
                {"TiB", 1099511627776.0},
                {"ms", 1},
                {"s", 1e3},
                {"min", 6e4},
                {"h", 3.6e6},
                {"d", 8.64e7}};
    char *end;
    double x = strtod(text, &end);

    if (end == text)
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof unit / sizeof unit[0]; i++)
        if (strcmp(end, unit[i].suffix) == 0) {
            *out = x * unit[i].factor;
            return isfinite(*out);
        }
    return false;
}

bool config_number_parse(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*out);
}

bool config_int_parse(const char *text, int64_t *out)
{
    double x;
    if (strpbrk(text, ".eExX") == NULL) {
        char *end;
        errno = 0;
        *out = (int64_t)strtoll(text, &end, 10);
        return end != text && *end == 0 && errno == 0;
    }
    if (!config_number_parse(text, &x) || x != floor(x) || fabs(x) > 9007199254740992.0)
        return false;
    *out = (int64_t)x;
    return true;
}

int config_bool_parse(const char *text)
{
    static const char *const word[] = {"false", "true", "no", "yes", "off", "on"};
    for (int i = 0; i < 6; i++)
        if (strcmp(text, word[i]) == 0)
            return i % 2;
    return -1;
}

int config_choice_parse(const char *text, const char *choices)
{
    size_t n = strlen(text);
    int index = 0;
    for (const char *p = choices; p != NULL; index++) {
        if (strncmp(p, text, n) == 0 && (p[n] == 0 || p[n] == '|'))
            return index;
        p = strchr(p, '|');
        if (p != NULL)
            p++;
    }
    return -1;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* "tables[3].dim" -> "tables[].dim" */
static void path_generic(const char *in, char out[PATH_MAX_BYTES])
{
    size_t n = 0;
    for (const char *p = in; *p != 0; p++) {
        out[n++] = *p;
        if (*p == '[')
            while (p[1] >= '0' && p[1] <= '9')
                p++;
    }
    out[n] = 0;
}

unsigned config_distance(const char *a, const char *b)
{
    unsigned row[PATH_MAX_BYTES + 1];
    size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1] != 0; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]),
                     least = MIN(row[j], row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = MIN(change, least);
        }
    }
    return row[n];
}

static const char *last_word(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot == NULL)
        return path;
    return dot + 1;
}

/* Writes the known keys that end in exactly these words, as `lr` does, or else those whose last
 * word is nearly the path's: at most SAID of them, ", " between. Returns true when there are
 * any. */
#define SAID 3u
static bool keys_of_word(const struct config_key *spec, const char *path, unsigned most,
                         char out[SAID * PATH_MAX_BYTES])
{
    size_t n = strlen(path), said = 0, at = 0;
    out[0] = '\0';
    for (; spec->path != NULL && said < SAID; spec++) {
        size_t k = strlen(spec->path);
        bool ends = k > n && spec->path[k - n - 1] == '.' && strcmp(spec->path + k - n, path) == 0;
        bool near = most > 0 && config_distance(last_word(path), last_word(spec->path)) < most;
        if (ends || near)
            at += (size_t)snprintf(out + at, SAID * PATH_MAX_BYTES - at, "%s%s",
                                   text_if(said++ > 0, ", "), spec->path);
    }
    return said > 0;
}

static const char *nearest_key(const struct config_key *spec, const char *path)
{
    const char *best = "";
    unsigned least = ~0u;
    for (; spec->path != NULL; spec++) {
        unsigned d = config_distance(path, spec->path);
        if (d < least) {
            least = d;
            best = spec->path;
        }
    }
    return best;
}

/* The key that replaces a former one; NULL: `path` is no former key. */
static const char *successor(const char *path)
{
    if (strcmp(path, "warm_start") == 0)
        return "start_from";
    return NULL;
}

/* Why a key of a former release has no effect any more; NULL: `path` is none. Texts that are stored
 * in fleets and checkpoints still have such keys, so they are no error. */
static const char *without_effect(const char *path)
{
    if (config_path_under(path, "train.cache"))
        return "no rows are cached any more: train.prefetch looks ahead and always sees the "
               "lane's own writes";
    return NULL;
}

/* The length of the list's name when the key is under the name of a list of maps, as in `columns:
 * {I1: number}`; else 0. */
static size_t under_a_list(const struct config_key *spec, const char *path)
{
    for (; spec->path != NULL; spec++) {
        const char *list = strstr(spec->path, "[].");
        size_t n = 0;
        if (list != NULL)
            n = (size_t)(list - spec->path);
        if (n > 0 && strncmp(path, spec->path, n) == 0 && path[n] == '.')
            return n;
    }
    return 0;
}

/* True for the forms that may follow the name of a list of inputs. */
static bool is_element(const char *rest)
{
    static const char *const forms[] = {"", ".cmd", ".kafka", ".object.list", ".object.open"};
    if (strncmp(rest, "[]", 2) == 0)
        rest += 2;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(rest, forms[i]) == 0)
            return true;
    return false;
}

/* True when the key is a map whose names the file chooses, and the path one of them. */
static bool is_named(const char *key, const char *path)
{
    size_t n = strlen(key);
    return n > 3 && strcmp(key + n - 3, ".{}") == 0 && strncmp(key, path, n - 2) == 0 &&
           path[n - 2] != 0;
}

static const struct config_key *key_find(const struct config_key *spec, const char *generic)
{
    size_t n = strlen(generic);
    for (; spec->path != NULL; spec++) {
        if (strcmp(spec->path, generic) == 0 || is_named(spec->path, generic))
            return spec;
        if (spec->type == CONFIG_LIST) { /* its elements: "x[]", "x[].cmd", "x.cmd", .. */
            size_t k = strlen(spec->path);
            if (n > k && strncmp(spec->path, generic, k) == 0 && is_element(generic + k))
                return spec;
        }
    }
    return NULL;
}

/* The key of a list of lists, "x[]", of which `generic`, "x", is an empty one; else NULL. */
static const struct config_key *empty_find(const struct config_key *spec, const char *generic)
{
    size_t n = strlen(generic);
    for (; spec->path != NULL; spec++)
        if (strncmp(spec->path, generic, n) == 0 && strcmp(spec->path + n, "[]") == 0)
            return spec;
    return NULL;
}

const struct config_key *config_key_find(const struct config_key *spec, const char *path)
{
    char generic[PATH_MAX_BYTES];
    path_generic(path, generic);
    return key_find(spec, generic);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* "job.yaml:12", or "--set" for an entry of the command line. */
static const char *place_of(const struct config *c, const struct entry *n, char out[PLACE_BYTES])
{
    if (n->set)
        return "--set";
    (void)snprintf(out, PLACE_BYTES, "%.*s:%d", (int)LIMIT_PATH, c->name, n->line);
    return out;
}

static int value_check(const struct config *c, const struct entry *n, const struct config_key *k,
                       struct err *e)
{
    char where[PLACE_BYTES];
    double x = 0;
    int64_t whole;
    if (n->value == NULL && k->type == CONFIG_LIST) /* an empty list */
        return 0;
    if (n->value == NULL)
        return err_set(e, SHOAL_E_CONFIG, "%s: %s: an empty list is no value here",
                       place_of(c, n, where), n->path);
    if (n->value[0] == 0 && !n->quoted)
        return err_set(e, SHOAL_E_CONFIG, "%s: %s has no value; give one or take the line out",
                       place_of(c, n, where), n->path);
    switch (k->type) {
    case CONFIG_STRING:
    case CONFIG_LIST:
    case CONFIG_ANY:
        return 0;
    case CONFIG_BOOL:
        if (config_bool_parse(n->value) < 0)
            return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not true or false",
                           place_of(c, n, where), n->path, n->value);
        return 0;
    case CONFIG_ENUM:
        if (config_choice_parse(n->value, k->choices) < 0)
            return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not one of %s", place_of(c, n, where),
                           n->path, n->value, k->choices);
        return 0;
    case CONFIG_SIZE:
        if (!config_size_parse(n->value, &x) || x < 0 || x > SIZE_LARGEST)
            return err_set(e, SHOAL_E_CONFIG,
                           "%s: %s: %s is not a size or time (such as 512MiB, 4GiB, 10s)",
                           place_of(c, n, where), n->path, n->value);
        break;
    case CONFIG_INT:
    case CONFIG_FLOAT:
        if (!config_number_parse(n->value, &x))
            return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not a number", place_of(c, n, where),
                           n->path, n->value);
        if (k->type == CONFIG_INT && !config_int_parse(n->value, &whole))
            return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not a whole number of at most 63 bits",
                           place_of(c, n, where), n->path, n->value);
        break;
    }
    if ((k->min != 0 || k->max != 0) && (x < k->min || x > k->max))
        return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not between %g and %g",
                       place_of(c, n, where), n->path, n->value, k->min, k->max);
    return 0;
}

static int unknown_key(const struct config *c, const struct entry *n, const char *generic,
                       struct err *e)
{
    char where[PLACE_BYTES], keys[SAID * PATH_MAX_BYTES];
    size_t list = under_a_list(c->spec, generic);
    const char *name = n->path + list + 1;
    const char *near = nearest_key(c->spec, generic);
    if (list > 0 && strchr(name, '.') == NULL && n->value != NULL &&
        config_path_under(generic, "data.columns"))
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: unknown key %s: data.columns is a list: columns: [{name: %s, type: "
                       "%.32s}]",
                       place_of(c, n, where), n->path, name, n->value);
    if (list > 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: unknown key %s: %.*s is a list of maps: begin each with `- name: ..`",
                       place_of(c, n, where), n->path, (int)list, n->path);
    if (successor(generic) != NULL)
        return err_set(e, SHOAL_E_CONFIG, "%s: unknown key %s; it is called %s now",
                       place_of(c, n, where), n->path, successor(generic));
    if (keys_of_word(c->spec, generic, 0, keys))
        return err_set(e, SHOAL_E_CONFIG, "%s: unknown key %s; it is a part of %s",
                       place_of(c, n, where), n->path, keys);
    if (config_distance(generic, near) > 2 && keys_of_word(c->spec, generic, 2, keys))
        near = keys;
    return err_set(e, SHOAL_E_CONFIG, "%s: unknown key %s; the nearest known key is %s",
                   place_of(c, n, where), n->path, near);
}

/* The key of every entry without effect. */
static const struct config_key gone = {.path = "", .type = CONFIG_STRING};

void config_gone_say(const struct config *c)
{
    const char *said = NULL;
    char generic[PATH_MAX_BYTES], where[PLACE_BYTES];
    for (size_t i = 0; i < c->count; i++) {
        const struct entry *n = &c->entry[i];
        if (n->key != &gone)
            continue;
        path_generic(n->path, generic);
        const char *why = without_effect(generic);
        if (why != said)
            log_warn("%s: %s has no effect, take it out: %s", place_of(c, n, where), n->path, why);
        said = why;
    }
}

int config_entries_check(struct config *c, const struct config_key *spec, struct err *e)
{
    char generic[PATH_MAX_BYTES], where[PLACE_BYTES];
    for (size_t i = 0; i < c->count; i++) {
        struct entry *n = &c->entry[i];
        path_generic(n->path, generic);
        n->key = key_find(spec, generic);
        if (n->key == NULL && n->value == NULL)
            n->key = empty_find(spec, generic);
        if (n->key == NULL && without_effect(generic) != NULL) {
            n->key = &gone;
            continue;
        }
        if (n->key == NULL) {
            for (const struct config_key *k = spec; k->path != NULL; k++)
                if (config_path_under(k->path, generic) && k->path[strlen(generic)] != 0)
                    return err_set(e, SHOAL_E_CONFIG,
                                   "%s: %s holds further keys (such as %s), not a value",
                                   place_of(c, n, where), n->path, k->path);
            return unknown_key(c, n, generic, e);
        }
        int rc = value_check(c, n, n->key, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}
