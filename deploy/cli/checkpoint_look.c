/* checkpoint_look.c: `shoal checkpoint verify`. Other files: checkpoint_diff.c compares two
 * checkpoints, checkpoint_sign.c checks signatures. */
#include "deploy/cli/checkpoint.h"
#include "embedding/checkpoint.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"
#include "proto/job/reading.h"

#include <stdio.h>
#include <stdlib.h>

static void damage_say(void *context, const struct checkpoint_damage *d)
{
    uint32_t *count = context;
    char line[2 * LIMIT_PATH], table[LIMIT_NAME + 64] = "";
    ++*count;
    if (d->table != NULL)
        (void)snprintf(table, sizeof table, " (table %s, from tablet %u on)", d->table, d->tablet);
    (void)snprintf(line, sizeof line, "%s: %s%s", d->file, d->text, table);
    puts(text_clean(line));
}

/* Checks a file whose checksum is in the coordinator's manifest. */
static void own_file_look(const char *folder, const struct json *m, const char *name,
                          uint32_t *damaged)
{
    struct err e = {0};
    char *text = NULL;
    size_t bytes;
    int rc = checkpoint_file(folder, name, (size_t)1 << 30, &text, &bytes, &e);
    if (rc == 0 && manifest_file_check(m, name, text, bytes, &e) != 0)
        err_wrap(&e, SHOAL_E_CHECKSUM, "%s", folder);
    if (e.code != 0) {
        ++*damaged;
        puts(text_clean(e.text));
    }
    if (rc == 0)
        free(text);
}

static void part_look(const char *folder, const struct json *part, uint32_t *damaged)
{
    char name[64];
    struct err e = {0};
    uint64_t sum = 0;
    char *text = NULL;
    size_t bytes;
    (void)manifest_hex(json_get(part, "manifest"), &sum);
    (void)snprintf(name, sizeof name, "%.40s/manifest", json_get_string(part, "folder", "?"));
    int rc = checkpoint_file(folder, name, (size_t)1 << 30, &text, &bytes, &e);
    if (rc == 0 && hash_bytes(text, bytes, 0) != sum) {
        (void)err_set(&e, SHOAL_E_CHECKSUM,
                      "%s/%s: its checksum is not that of the coordinator's manifest: changed, or "
                      "of another checkpoint",
                      folder, name);
    }
    if (e.code != 0) {
        ++*damaged;
        puts(text_clean(e.text));
    }
    if (rc == 0)
        free(text);
}

static void whole_say(const char *folder, const struct json *manifest)
{
    struct json *m = json_printable(manifest);
    char size[32], lacks[LACKS_BYTES];
    const char *what = "whole";
    if (manifest_lacks(m, lacks, sizeof lacks))
        what = "as it was made";
    printf("%s is %s: %.0f rows, %s\n", folder, what, json_get_number(m, "rows", 0),
           cli_size_text(json_get_number(m, "bytes", 0), size));
    if (lacks[0] != 0)
        printf("no whole checkpoint: %s\n", lacks);
    json_free(m);
}

int checkpoint_whole(const char *folder, const char *signers, struct err *e)
{
    struct json *m = NULL;
    struct checkpoint *c = NULL;
    struct err inner = {0};
    uint32_t damaged = 0;
    int hold, rc = reading_begin(folder, &hold, e);
    if (rc == 0 || rc == SHOAL_E_NOINPUT) {
        if (signers != NULL)
            rc = checkpoint_signed_check(folder, signers, e);
        else
            rc = 0;
    }
    if (rc == 0)
        rc = checkpoint_manifest(folder, &m, e);
    if (rc != 0) {
        reading_end(&hold);
        return rc;
    }
    own_file_look(folder, m, MANIFEST_STATE_FILE, &damaged);
    own_file_look(folder, m, MANIFEST_JOB_FILE, &damaged);
    for (size_t i = 0; i < json_count(json_get(m, "parts")); i++)
        part_look(folder, json_array_at(json_get(m, "parts"), i), &damaged);
    rc = checkpoint_open(folder, signers, &c, &inner);
    if (rc == 0) {
        (void)checkpoint_verify(c, damage_say, &damaged, &inner);
        if (checkpoint_facts(c)->parts != json_count(json_get(m, "parts"))) {
            printf("%s has %u parts, the manifest names %zu\n", folder, checkpoint_facts(c)->parts,
                   json_count(json_get(m, "parts")));
            damaged++;
        }
    } else {
        puts(text_clean(inner.text));
        damaged++;
    }
    checkpoint_close(c);
    if (damaged > 0)
        rc = err_set(e, signers != NULL ? SHOAL_E_DENIED : SHOAL_E_CORRUPT,
                     "%s is damaged in %u place%s: take another one", folder, damaged,
                     text_if(damaged != 1, "s"));
    else
        whole_say(folder, m);
    json_free(m);
    reading_end(&hold);
    return rc;
}

int checkpoint_verify_main(struct option_line *o, struct err *e)
{
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE,
                       "name the checkpoint's folder; see `shoal checkpoint verify --help`");
    int rc = checkpoint_whole(o->word[0], option_text(o, "signers"), e);
    if (rc == 0)
        rc = checkpoint_signed_say(o->word[0], option_given(o, "signers"), e);
    return rc;
}
