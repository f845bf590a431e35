/* live.c: a daemon's file, read again while the daemon runs. */
#include "proto/job/live.h"

#include "proto/base/log.h"
#include "proto/job/config_inner.h"

#include <string.h>

static bool same_value(const struct entry *a, const struct entry *b)
{
    if (b == NULL)
        return false;
    if (a->value == NULL || b->value == NULL)
        return a->value == b->value;
    return strcmp(a->value, b->value) == 0;
}

static bool may_change(const struct live *l, const char *path)
{
    if (strcmp(path, "log") == 0)
        return true;
    for (size_t i = 0; l->may != NULL && l->may[i] != NULL; i++)
        if (config_path_under(path, l->may[i]))
            return true;
    return false;
}

/* Reports changes of the keys that `a` has. gone: skips the keys that both have, which were
 * reported already. */
static void changes_tell(const struct live *l, const struct config *a, const struct config *b,
                         bool gone)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct entry *other = config_entry_find(b, a->entry[i].path);
        if (same_value(&a->entry[i], other) || (gone && other != NULL))
            continue;
        if (may_change(l, a->entry[i].path))
            log_info("%s: %s has changed", l->path, a->entry[i].path);
        else
            log_warn("%s: %s has changed, which counts from the next start", l->path,
                     a->entry[i].path);
    }
}

static void level_set(const struct config *c)
{
    if (config_has(c, "log"))
        log_set_level((enum log_level)config_enum(c, "log"));
    else
        log_set_level(log_level_default());
}

int live_open(struct live *l, struct err *e)
{
    l->now = NULL;
    int rc;
    if (l->path == NULL)
        rc = config_parse("{}", 2, "defaults", l->set, l->keys, &l->now, e);
    else
        rc = config_load(l->path, l->set, l->keys, &l->now, e);
    if (rc == 0)
        level_set(l->now);
    return rc;
}

int live_read(struct live *l, struct err *e)
{
    struct config *next;
    if (l->path == NULL)
        return 0;
    int rc = config_load(l->path, l->set, l->keys, &next, e);
    if (rc != 0) {
        log_event(SETTINGS_REFUSED, l->path, "%s; what was read before stays", e->text);
        return rc;
    }
    changes_tell(l, next, l->now, false);
    changes_tell(l, l->now, next, true);
    config_free(l->now);
    l->now = next;
    log_event(SETTINGS_READ, l->path, "%s has been read again", l->path);
    level_set(next);
    return 0;
}

void live_close(struct live *l)
{
    if (l->now != NULL)
        config_free(l->now);
    l->now = NULL;
}
