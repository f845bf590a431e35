/* live.c: a daemon's file, read again while the daemon runs. */
#include "proto/job/live.h"

#include "proto/base/log.h"
#include "proto/base/text.h"
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

/* The file's `log`; NULL: it has none, and SHOAL_LOG counts. */
static const char *levels_of(const struct config *c)
{
    return config_string_or(c, "log", NULL);
}

static int levels_check(const struct live *l, const struct config *c, struct err *e)
{
    char where[CONFIG_WHERE];
    const char *levels = levels_of(c), *wrong = NULL;
    if (levels != NULL)
        wrong = log_levels_wrong(levels);
    if (wrong == NULL)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s: %slog: %s is neither a level (error, warn, info, debug) nor ROOM=LEVEL, "
                   "such as info,shard=debug",
                   text_or(l->path, "settings"), config_where(c, "log", where), wrong);
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
        rc = levels_check(l, l->now, e);
    if (rc == 0)
        (void)log_levels_set(levels_of(l->now));
    return rc;
}

int live_read(struct live *l, struct err *e)
{
    struct config *next;
    if (l->path == NULL)
        return 0;
    int rc = config_load(l->path, l->set, l->keys, &next, e);
    if (rc == 0 && (rc = levels_check(l, next, e)) != 0)
        config_free(next);
    if (rc != 0) {
        log_event(SETTINGS_REFUSED, l->path, "%s; what was read before stays", e->text);
        return rc;
    }
    changes_tell(l, next, l->now, false);
    changes_tell(l, l->now, next, true);
    config_free(l->now);
    l->now = next;
    log_event(SETTINGS_READ, l->path, "%s has been read again", l->path);
    (void)log_levels_set(levels_of(next));
    return 0;
}

void live_close(struct live *l)
{
    if (l->now != NULL)
        config_free(l->now);
    l->now = NULL;
}
