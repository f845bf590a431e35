/* spaces.c: the list of spaces; spaces.h has the rules. */
#include "server/coord/fleet/spaces.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SPACE_KEY[] = "space", NUMBERS_KEY[] = "numbers", LEFT_KEY[] = "left",
                  HALF_KEY[] = "half", EMPTIED_KEY[] = "emptied";

struct coord_space_record { /* value of "space" */
    char name[LIMIT_NAME];
    uint32_t state, zero;
};
_Static_assert(sizeof(struct coord_space_record) == LIMIT_NAME + 8, "it is stored");

/* ---- the store ------------------------------------------------------------------------------- */

size_t coord_space_set_bytes(const struct table_set *s)
{
    return table_set_is_word(*s) ? sizeof s->word[0] : sizeof *s;
}

int coord_space_set_get(struct coord_store *store, const char *key, struct table_set *out,
                        struct err *e)
{
    void *value;
    size_t bytes;
    *out = TABLE_SET_NONE;
    int rc = coord_store_get(store, key, &value, &bytes, e);
    if (rc != 0)
        return rc;
    if (bytes == sizeof out->word[0] || bytes == sizeof *out)
        memcpy(out, value, bytes);
    else
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "the stored tables of a space, '%s', have %zu bytes" COORD_CLUSTER_ADVICE, key,
                     bytes);
    free(value);
    return rc;
}

static int space_open(struct coord_fleet *f, struct coord_space *s, struct err *e)
{
    struct coord_space_record r = {.state = SPACE_IS};
    char prefix[16];
    (void)snprintf(prefix, sizeof prefix, "space%u/", s->number);
    s->store = s->number == 0 ? f->store : coord_store_part(f->store, prefix);
    if (s->store == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a space's part of the store");
    int rc = coord_store_get_fixed(s->store, SPACE_KEY, &r, sizeof r, e);
    if (rc == 0 && (r.state > SPACE_HALF || r.name[LIMIT_NAME - 1] != 0))
        rc = err_set(e, SHOAL_E_CORRUPT, "the stored space %u cannot be" COORD_CLUSTER_ADVICE,
                     s->number);
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
        return rc;
    text_copy(s->name, sizeof s->name, r.name);
    s->state = r.state;
    /* "": all of its tables count as half dropped */
    if (coord_store_get_fixed(s->store, HALF_KEY, s->half, sizeof s->half, NULL) != 0 ||
        s->half[LIMIT_NAME - 1] != 0)
        s->half[0] = 0;
    if (coord_store_get_fixed(s->store, EMPTIED_KEY, s->emptied, sizeof s->emptied, NULL) != 0 ||
        s->emptied[COORD_EMPTIED - 1] != 0)
        s->emptied[0] = 0;
    rc = coord_space_set_get(s->store, LEFT_KEY, &s->left, e);
    if (rc == 0 || rc == SHOAL_E_NOT_FOUND)
        rc = coord_space_set_get(s->store, NUMBERS_KEY, &s->numbers, e);
    coord_spaces_hold(f);
    /* a damaged value ends a job that goes on with it, not the coordinator (job/setup.h) */
    if (rc == SHOAL_E_CORRUPT)
        return 0;
    return coord_store_optional(rc);
}

int coord_spaces_open(struct coord_fleet *f, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i <= LIMIT_SPACES; i++)
        f->spaces.space[i].number = i;
    COORD_EACH_SPACE (f, s)
        if (rc == 0)
            rc = space_open(f, s, e);
    return rc;
}

void coord_spaces_close(struct coord_fleet *f)
{
    COORD_EACH_SPACE (f, s) {
        legend_free(&s->legend);
        if (s->number > 0)
            coord_store_close(s->store);
        s->store = NULL;
    }
}

static bool half_put(struct coord_fleet *f, struct coord_space *s, const char *table)
{
    char half[LIMIT_NAME] = "";
    text_copy(half, sizeof half, table);
    if (strcmp(half, s->half) != 0 &&
        !coord_fleet_store(f, s->store, HALF_KEY, half, sizeof half, true))
        return false;
    memcpy(s->half, half, sizeof half);
    return true;
}

bool coord_space_half_put(struct coord_fleet *f, struct coord_space *s, const char *table)
{
    return coord_space_put(f, s, s->name, SPACE_HALF) && half_put(f, s, table);
}

bool coord_space_emptied_put(struct coord_fleet *f, struct coord_space *s, const char *table)
{
    char all[COORD_EMPTIED] = "";
    if (table == NULL && s->emptied[0] == 0)
        return true;
    if (table != NULL)
        (void)snprintf(all, sizeof all, "%.150s%s%s", s->emptied, text_if(s->emptied[0] != 0, ", "),
                       table);
    memcpy(s->emptied, all, sizeof all);
    return coord_fleet_store(f, s->store, EMPTIED_KEY, all, sizeof all, true);
}

bool coord_space_put(struct coord_fleet *f, struct coord_space *s, const char *name,
                     enum coord_space_state state)
{
    struct coord_space_record r = {.state = (uint32_t)state};
    text_copy(r.name, sizeof r.name, name);
    SHOAL_ASSERT(s->number < LIMIT_SPACES);
    if (!coord_fleet_store(f, s->store, SPACE_KEY, &r, sizeof r, true))
        return false;
    memcpy(s->name, r.name, sizeof s->name);
    s->state = r.state;
    return half_put(f, s, "");
}

void coord_spaces_hold(struct coord_fleet *f)
{
    f->cluster.held = TABLE_SET_NONE;
    COORD_EACH_SPACE (f, s)
        f->cluster.held = table_set_or(f->cluster.held, coord_space_tables(s));
}

bool coord_space_numbers_put(struct coord_fleet *f, struct coord_space *s)
{
    coord_spaces_hold(f);
    return coord_fleet_store(f, s->store, LEFT_KEY, &s->left, coord_space_set_bytes(&s->left),
                             false) &&
           coord_fleet_store(f, s->store, NUMBERS_KEY, &s->numbers,
                             coord_space_set_bytes(&s->numbers), true);
}

bool coord_space_forget(struct coord_fleet *f, struct coord_space *s)
{
    s->numbers = s->left = TABLE_SET_NONE;
    return coord_space_emptied_put(f, s, NULL) && coord_space_numbers_put(f, s) &&
           coord_space_put(f, s, "", SPACE_IS);
}

static bool has_rows(const struct coord_fleet *f, const struct coord_space *s)
{
    return s->state != SPACE_LOST && coord_space_holds(f, s) && !f->spaces.use(f, s).brings;
}

bool coord_spaces_have(const struct coord_fleet *f)
{
    bool any = false;
    COORD_EACH_SPACE (f, s)
        any = any || has_rows(f, s);
    return any;
}

/* A shard has lost the rows that were in its memory; COORD_NOBODY: the shards of the newest
 * REPLACE have lost theirs. */
static bool loses(const struct coord_fleet *f, const struct coord_space *s, uint32_t shard)
{
    if (!table_set_any(s->numbers) || !has_rows(f, s))
        return false;
    if (shard == COORD_NOBODY)
        return coord_cluster_replaced_of(f, &s->numbers);
    return coord_cluster_lost_of(f, shard, &s->numbers);
}

/* Marks the spaces that lose rows but this one. */
static bool mark(struct coord_fleet *f, const struct coord_space *but, uint32_t shard,
                 const char *how)
{
    struct err e = {0};
    bool any = false;
    COORD_EACH_SPACE (f, s) {
        if (s == but || !loses(f, s, shard))
            continue;
        log_warn("%s: those of space %s are lost: shoal drop %s, and begin it with a checkpoint",
                 how, s->name, s->name);
        if (!coord_space_put(f, s, s->name, SPACE_LOST))
            return false;
        any = true;
    }
    /* a message that fails here is sent with the next names */
    if (any && coord_names_again(f, NULL, &e) != 0)
        log_warn("the servers are not told that spaces are lost: %s", e.text);
    return f->fatal == 0;
}

bool coord_spaces_replaced(struct coord_fleet *f, const struct coord_space *but, const char *how)
{
    return mark(f, but, COORD_NOBODY, how);
}

void coord_spaces_replaced_text(const struct coord_fleet *f, const struct coord_space *but,
                                char *out, size_t bytes)
{
    size_t at = 0;
    out[0] = 0;
    COORD_EACH_SPACE (f, s)
        if (s != but && loses(f, s, COORD_NOBODY) && at + LIMIT_NAME + 3 < bytes)
            at += (size_t)snprintf(out + at, bytes - at, "%s%s", text_if(at > 0, ", "),
                                   text_unless_empty(s->name, "one without a name"));
}

bool coord_spaces_lost(struct coord_fleet *f, uint32_t shard)
{
    char how[LIMIT_NAME + 80];
    COORD_EACH_SPACE (f, s)
        if (f->spaces.use(f, s).needs && coord_cluster_lost_of(f, shard, &s->numbers))
            return false;
    (void)snprintf(how, sizeof how, "server %s has started again, and its rows were in memory",
                   f->members.shard[shard].server);
    return mark(f, NULL, shard, how);
}

/* ---- which one ------------------------------------------------------------------------------- */

bool coord_space_holds(const struct coord_fleet *f, const struct coord_space *s)
{
    if (s->number == LIMIT_SPACES)
        return false;
    /* whose tables the map is of is not known: the store was lost, or is release 0.2.0's */
    bool bare = f->cluster.tables > 0 && !table_set_any(coord_map_places(&f->cluster));
    bool first =
        s->number == 0 && f->cluster.map_epoch > 0 && !table_set_any(f->cluster.held) && !bare;
    return table_set_any(s->numbers) || first;
}

uint32_t coord_spaces_held(const struct coord_fleet *f)
{
    uint32_t held = 0;
    COORD_EACH_SPACE (f, s)
        held += coord_space_holds(f, s);
    return held;
}

struct coord_space *coord_space_find(struct coord_fleet *f, const char *name)
{
    struct coord_space *nameless = NULL;
    COORD_EACH_SPACE (f, s) {
        if (!coord_space_holds(f, s))
            continue;
        if (strcmp(s->name, name) == 0)
            return s;
        if (s->name[0] == 0)
            nameless = s;
    }
    return nameless;
}

struct coord_space *coord_space_free(struct coord_fleet *f, struct coord_space *first)
{
    if (first->number < LIMIT_SPACES && !table_set_any(first->numbers) &&
        !coord_space_holds(f, first))
        return first;
    COORD_EACH_SPACE (f, s)
        if (!table_set_any(s->numbers) && !s->used && !coord_space_holds(f, s))
            return s;
    return NULL;
}

int coord_space_whole(const struct coord_space *s, int status, struct err *e)
{
    if (s->state == SPACE_LOST)
        return err_set(e, status,
                       "rows of space %s were in the memory of a server that has started again, or "
                       "on a disk that is gone: they are lost: shoal drop %s, then begin it with a "
                       "checkpoint (--resume or "
                       "--start-from)",
                       s->name, s->name);
    if (s->state == SPACE_HALF && s->half[0] != 0)
        return err_set(e, status,
                       "table %s of space %s is half dropped: some servers have dropped its rows, "
                       "and not all: shoal drop %s/%s once more drops the rest",
                       s->half, s->name, s->name, s->half);
    if (s->state == SPACE_HALF)
        return err_set(e, status,
                       "space %s is half dropped: some servers have dropped its rows, and not all: "
                       "shoal drop %s once more drops the rest",
                       s->name, s->name);
    return 0;
}

int coord_space_there(const struct coord_fleet *f, const struct coord_space *s, int status,
                      struct err *e)
{
    int rc = coord_space_whole(s, status, e);
    if (rc != 0 || f->spaces.use(f, s).runs)
        return rc;
    COORD_EACH_SHARD (&f->members, i)
        if (coord_cluster_lost_of(f, i, &s->numbers))
            return err_set(e, status,
                           "server %s has started again, and its rows of space %s were in memory: "
                           "they are lost: begin the space anew (--set fresh=all), with a "
                           "checkpoint (--resume or --start-from) if there is one",
                           f->members.shard[i].server, s->name);
    return 0;
}

void coord_spaces_text(const struct coord_fleet *f, const struct coord_space *but, char *out,
                       size_t bytes)
{
    size_t at = 0;
    out[0] = 0;
    COORD_EACH_SPACE (f, s)
        if (s != but && coord_space_holds(f, s) && at + LIMIT_NAME + 3 < bytes)
            at += (size_t)snprintf(out + at, bytes - at, "%s%s", text_if(at > 0, ", "),
                                   text_unless_empty(s->name, "one without a name"));
}

/* True when the fleet never had a space beside the first one: jobs of any name read that, as they
 * did before there were spaces. */
static bool alone(const struct coord_fleet *f)
{
    COORD_EACH_SPACE (f, s)
        if (s->number > 0 && table_set_any(s->numbers))
            return false;
    return true;
}

int coord_space_asked(struct coord_fleet *f, const char *name, struct coord_space **out,
                      struct err *e)
{
    char names[ERR_TEXT_MAX / 2];
    uint32_t held = coord_spaces_held(f);
    bool any = held == 1 && (name[0] == 0 || alone(f));
    *out = NULL;
    COORD_EACH_SPACE (f, s)
        if (coord_space_holds(f, s) &&
            (any || strcmp(s->name, name) == 0 || (held == 1 && s->name[0] == 0)))
            *out = s;
    if (held == 0 || *out != NULL)
        return 0;
    coord_spaces_text(f, NULL, names, sizeof names);
    if (name[0] == 0)
        return err_set(e, SHOAL_E_USAGE,
                       "the servers hold the tables of %u spaces (%s): say of which one", held,
                       names);
    return err_set(e, SHOAL_E_NOT_FOUND, "there is no space %s here: the servers hold tables of %s",
                   name, names);
}

struct table_set coord_spaces_resting(const struct coord_fleet *f)
{
    struct table_set numbers = TABLE_SET_NONE;
    COORD_EACH_SPACE (f, s)
        if (!s->used)
            numbers = table_set_or(numbers, s->numbers);
    return numbers;
}
