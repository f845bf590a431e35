/* legend_figures.c: the figures of numbers, which the tables' rows were made with. */
#include "proto/job/legend_inner.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "proto/job/scale.h"

#include <stdlib.h>
#include <string.h>

void legend_figures_free(struct legend *n)
{
    for (uint32_t i = 0; i < n->figure_count; i++)
        free(n->figures[i].text);
    free(n->figures);
    n->figures = NULL;
    n->figure_count = n->figure_room = 0;
}

static struct legend_figures *figures_find(const struct legend *n, const char *name)
{
    for (uint32_t i = 0; i < n->figure_count; i++)
        if (strcmp(n->figures[i].name, name) == 0)
            return &n->figures[i];
    return NULL;
}

const char *legend_figures_of(const struct legend *n, const char *name)
{
    const struct legend_figures *x = figures_find(n, name);
    if (x == NULL)
        return NULL;
    return x->text;
}

int legend_figures_put(struct legend *n, const char *name, const char *text, struct err *e)
{
    struct legend_figures *x = figures_find(n, name);
    char *copy = strdup(text);
    SHOAL_ASSERT(strlen(name) < sizeof x->name);
    if (copy == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (x != NULL) {
        free(x->text);
        x->text = copy;
        return 0;
    }
    if (array_room(&n->figures, n->figure_count, &n->figure_room, 8) != 0) {
        free(copy);
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    x = &n->figures[n->figure_count++];
    text_copy(x->name, sizeof x->name, name);
    x->text = copy;
    return 0;
}

void legend_figures_remove(struct legend *n, const char *name)
{
    struct legend_figures *x = figures_find(n, name);
    if (x == NULL)
        return;
    free(x->text);
    *x = n->figures[--n->figure_count];
}

int legend_figures_copy(const struct legend *from, struct legend *to, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < from->figure_count && rc == 0; i++)
        rc = legend_figures_put(to, from->figures[i].name, from->figures[i].text, e);
    return rc;
}

struct json *legend_figures_json(const struct legend *n)
{
    if (n->figure_count == 0)
        return NULL;
    struct json *j = json_new_object();
    for (uint32_t i = 0; i < n->figure_count; i++)
        (void)json_set_string(j, n->figures[i].name, n->figures[i].text);
    return j;
}

int legend_figures_parse(const struct json *j, struct legend *out, struct err *e)
{
    struct scale s;
    int rc = 0;
    if (json_members(j) > 2 * LIMIT_FIELDS)
        return err_set(e, SHOAL_E_CONFIG, "names: more than %u figures", 2 * LIMIT_FIELDS);
    for (size_t i = 0; i < json_members(j) && rc == 0; i++) {
        const char *name = json_member_name(j, i), *text = json_as_string(json_member_at(j, i), "");
        if (strlen(name) >= LEGEND_NAME || !scale_parse(text, &s) || !s.known)
            return err_set(e, SHOAL_E_CONFIG,
                           "names.figures.%.80s is not as the coordinator writes it", name);
        rc = legend_figures_put(out, name, text, e);
    }
    return rc;
}

/* True when both texts are of one rule, so that their figures must be equal. */
static bool same_rule(const char *a, const char *b)
{
    char one[SCALE_RULE_TEXT], other[SCALE_RULE_TEXT];
    struct scale x, y;
    if (!scale_parse(a, &x) || !scale_parse(b, &y))
        return false;
    scale_rule(&x, one);
    scale_rule(&y, other);
    return strcmp(one, other) == 0;
}

int legend_figures_match(const struct legend *was, struct legend *is, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < was->figure_count && rc == 0; i++) {
        const struct legend_figures *x = &was->figures[i];
        const char *own = legend_figures_of(is, x->name);
        if (own == NULL)
            rc = legend_figures_put(is, x->name, x->text, e);
        else if (strcmp(own, x->text) != 0 && same_rule(own, x->text))
            rc = err_set(e, SHOAL_E_CONFIG,
                         "column %s is read as \"%.160s\" here, the tables were made with "
                         "\"%.160s\": where the input is event files, convert its log again with "
                         "the job file of the tables' run, whose line `names:` has the figures; "
                         "else run the same release everywhere",
                         x->name, own, x->text);
    }
    return rc;
}
