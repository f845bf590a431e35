/* sim_folder.c: beside DIR are DIR.kept, a copy, and DIR.right, the folder that was moved away. */
#include "tests/lib/sim_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs `format` for the folder of each shard of server i: %s is the folder. */
static void each(const struct cluster *c, uint32_t i, const char *format)
{
    ck_assert(!cluster_server_alive(c, i));
    for (uint32_t k = 0; k < c->options.shards; k++) {
        char command[2048];
        const char *dir = c->server[i * c->options.shards + k].dir;
        snprintf(command, sizeof command, "d='%s'; %s", dir, format);
        ck_assert_int_eq(system(command), 0);
    }
}

void sim_folder_keep(const struct cluster *c, uint32_t i)
{
    each(c, i, "rm -rf \"$d.kept\" && cp -r \"$d\" \"$d.kept\"");
}

void sim_folder_empty(const struct cluster *c, uint32_t i)
{
    each(c, i, "mv \"$d\" \"$d.right\"");
}

void sim_folder_older(const struct cluster *c, uint32_t i)
{
    each(c, i, "mv \"$d\" \"$d.right\" && cp -r \"$d.kept\" \"$d\"");
}

void sim_folder_swap(const struct cluster *c, uint32_t i, uint32_t other)
{
    ck_assert(!cluster_server_alive(c, other));
    for (uint32_t k = 0; k < c->options.shards; k++) {
        char command[2048];
        snprintf(command, sizeof command,
                 "a='%s'; b='%s'; mv \"$a\" \"$a.x\" && mv \"$b\" \"$a\" && mv \"$a.x\" \"$b\"",
                 c->server[i * c->options.shards + k].dir,
                 c->server[other * c->options.shards + k].dir);
        ck_assert_int_eq(system(command), 0);
    }
}

void sim_folder_back(const struct cluster *c, uint32_t i)
{
    each(c, i, "rm -rf \"$d\" && mv \"$d.right\" \"$d\"");
}
