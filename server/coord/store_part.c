/* store_part.c: a part of a store, by the beginning of its keys. */
#include "server/coord/store.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct part_store {
    struct coord_store base;
    struct coord_store *whole; /* borrowed */
    char prefix[16];
};

static struct coord_store *key_in(struct coord_store *s, const char *key, char out[COORD_KEY_MAX])
{
    const struct part_store *p = container_of(s, struct part_store, base);
    int n = snprintf(out, COORD_KEY_MAX, "%s%s", p->prefix, key);
    SHOAL_ASSERT(n > 0 && (uint32_t)n < COORD_KEY_MAX);
    return p->whole;
}

static int part_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                    bool sync, struct err *e)
{
    char full[COORD_KEY_MAX];
    struct coord_store *whole = key_in(s, key, full);
    return whole->ops->put(whole, full, value, bytes, sync, e);
}

static int part_get(struct coord_store *s, const char *key, void **value, size_t *bytes,
                    struct err *e)
{
    char full[COORD_KEY_MAX];
    struct coord_store *whole = key_in(s, key, full);
    return whole->ops->get(whole, full, value, bytes, e);
}

static int part_remove(struct coord_store *s, const char *key, struct err *e)
{
    char full[COORD_KEY_MAX];
    struct coord_store *whole = key_in(s, key, full);
    return whole->ops->remove(whole, full, e);
}

struct part_visit {
    const char *prefix;
    coord_store_visitor visit;
    void *context;
};

static int part_row(void *context, const char *key, const void *value, size_t bytes)
{
    const struct part_visit *v = context;
    size_t prefix = strlen(v->prefix);
    return strncmp(key, v->prefix, prefix) == 0 ? v->visit(v->context, key + prefix, value, bytes)
                                                : 0;
}

static int part_visit(struct coord_store *s, coord_store_visitor visit, void *context)
{
    const struct part_store *p = container_of(s, struct part_store, base);
    struct part_visit v = {p->prefix, visit, context};
    return coord_store_visit(p->whole, part_row, &v);
}

static void part_close(struct coord_store *s)
{
    free(container_of(s, struct part_store, base));
}

struct coord_store *coord_store_part(struct coord_store *whole, const char *prefix)
{
    static const struct coord_store_ops ops = {part_put, part_get, part_remove, part_close,
                                               part_visit};
    struct part_store *p = calloc(1, sizeof *p);
    SHOAL_ASSERT(strlen(prefix) < sizeof p->prefix);
    if (p == NULL)
        return NULL;
    p->base.ops = &ops;
    p->whole = whole;
    memcpy(p->prefix, prefix, strlen(prefix));
    return &p->base;
}
