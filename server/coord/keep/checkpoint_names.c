/* checkpoint_names.c: the folder of checkpoints, and the names in it. */
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void coord_checkpoint_number_name(uint64_t number, char name[LIMIT_NAME])
{
    (void)snprintf(name, LIMIT_NAME, "%06" PRIu64, number);
}

static void name_seen(void *context, const char *name)
{
    struct coord_checkpoint_names *n = context;
    n->found = n->found || (n->want != NULL && strcmp(n->want, name) == 0);
    if (!n->collect || !manifest_name_counts(name))
        return;
    char same[LIMIT_NAME];
    coord_checkpoint_number_name(strtoull(name, NULL, 10), same);
    if (strcmp(same, name) != 0) /* not a name that coord_checkpoint_number_name makes */
        return;
    if (array_room(&n->number, n->count, &n->capacity, 64) != 0)
        return;
    SHOAL_ASSERT(n->count < n->capacity);
    n->number[n->count++] = strtoull(name, NULL, 10);
}

int coord_checkpoint_names(const struct coord_folder_ops *ops, const char *dir,
                           struct coord_checkpoint_names *out, struct err *e)
{
    SHOAL_ASSERT(dir[0] == '/' && out->count == 0);
    return ops->list(dir, name_seen, out, e);
}

uint64_t coord_checkpoint_last(const struct coord_job *j)
{
    struct coord_checkpoint_names n = {.collect = true};
    uint64_t last = 0;
    for (uint32_t i = 0; i < COORD_CHECKPOINTS_MAX; i++)
        name_seen(&n, j->checkpoint->list->record[i].name);
    for (size_t i = 0; i < n.count; i++)
        last = MAX(n.number[i], last);
    free(n.number);
    return last;
}

int coord_checkpoint_next_name(const struct coord_folder_ops *ops, const char *dir,
                               char name[LIMIT_NAME], uint64_t *number, struct err *e)
{
    struct coord_checkpoint_names n = {.collect = true};
    int rc = coord_checkpoint_names(ops, dir, &n, e);
    for (size_t i = 0; i < n.count; i++)
        *number = MAX(n.number[i], *number);
    free(n.number);
    coord_checkpoint_number_name(++*number, name);
    SHOAL_ASSERT(rc != 0 || manifest_name_ok(name));
    return rc;
}

int coord_checkpoint_dir(const struct coord_folder_ops *ops, const char *root, char dir[LIMIT_PATH],
                         struct err *e)
{
    char absolute[LIMIT_PATH];
    int rc = 0;
    if (root[0] != 0)
        rc = ops->below(root, dir, e); /* checked before the folder is made */
    if (rc == 0)
        rc = ops->open(dir, absolute, e);
    if (rc == 0)
        memcpy(dir, absolute, sizeof absolute);
    return rc;
}

bool coord_checkpoint_newest(const struct coord_job *j, uint32_t older, char path[LIMIT_PATH])
{
    const struct coord_checkpoint_record *r = coord_checkpoint_record(j, older);
    /* after a restart the folder may take long to open: until then the job's own path stands */
    const char *dir = text_unless_empty(j->checkpoint->dir, j->spec.checkpoint.dir);
    if (r == NULL || dir[0] == 0)
        return false;
    (void)snprintf(path, LIMIT_PATH, "%.900s/%s", dir, r->name);
    return true;
}
