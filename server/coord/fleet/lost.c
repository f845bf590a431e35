/* lost.c: see lost.h. */
#include "server/coord/fleet/lost.h"

#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "server/coord/fleet/fleet.h"
#include "server/coord/fleet/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOST_LOOK_MAX 1000u
#define MANIFEST_LOOK (4u << 20) /* a longer manifest is passed over */

struct look {
    const struct coord_folder_ops *folder;
    const char *root;
    uint32_t left; /* manifests that may still be read */
    char newest[LIMIT_PATH], job[LIMIT_NAME], date[32];
};

static void seen(void *context, const char *name)
{
    struct look *l = context;
    char path[LIMIT_PATH];
    void *text = NULL;
    struct json *m = NULL;
    size_t bytes;
    int n = snprintf(path, sizeof path, "%s/%s", l->root, name);
    if (n < 0 || (size_t)n >= sizeof path || l->left == 0)
        return;
    l->left--;
    if (l->folder->get(path, MANIFEST_FILE, MANIFEST_LOOK, &text, &bytes, NULL) == 0)
        (void)manifest_parse(text, bytes, &m, NULL);
    const char *date = json_get_string(m, "date", "");
    if (m != NULL && !manifest_tables(m) && strcmp(date, l->date) > 0) {
        text_copy(l->newest, sizeof l->newest, path);
        text_copy(l->job, sizeof l->job, json_get_string(m, "job", ""));
        text_copy(l->date, sizeof l->date, date);
    }
    json_free(m);
    free(text);
}

void coord_lost_look(struct coord_fleet *f)
{
    const char *root = f->options.checkpoint_root;
    struct look l = {.folder = f->options.folder, .root = root, .left = LOST_LOOK_MAX};
    char *way = f->cluster.way_back;
    size_t room = sizeof f->cluster.way_back;
    if (l.folder != NULL && root != NULL && root[0] != 0)
        (void)l.folder->list(root, seen, &l, NULL);
    if (l.newest[0] != 0)
        (void)snprintf(way, room,
                       "the newest checkpoint is of job %s, %s: shoal submit JOB --resume %s --set "
                       "fresh=all drops the tables of its space and goes on from it",
                       l.job, l.date, l.newest);
    else
        (void)snprintf(
            way, room,
            "shoal submit JOB --resume CHECKPOINT --set fresh=all drops the tables of the job's "
            "space and goes on from a checkpoint");
    log_warn("a job that ran before is not known here; %s; --start-from fleet begins a job with "
             "the rows as they are",
             way);
}
