/* checkpoint_look.c: `shoal checkpoint verify` and `export`: they read a checkpoint, or the rows
 * that an ended run has left. Other files: checkpoint_diff.c compares two, checkpoint_sign.c checks
 * signatures. */
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/reader.h"
#include "deploy/cli/rights.h"
#include "deploy/cli/run.h"
#include "embedding/checkpoint.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/text.h"
#include "proto/job/reading.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- verify ---------------------------------------------------------------------------------- */

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

/* ---- export ---------------------------------------------------------------------------------- */

enum export_format { EXPORT_TSV, EXPORT_CSV, EXPORT_BINARY };

struct export
{
    FILE *out;
    const struct table_schema *schema; /* borrowed */
    enum export_format format;
    char separator;
    uint32_t floats; /* a row's weights and, on request, its optimizer's state */
    bool stats;      /* the row's statistics follow */
    float *number;   /* owned (floats): the values of one row */
    uint64_t rows;
    bool failed;
};

/* The statistics of a row in a binary export. */
struct stats_exported {
    float show, click;
    uint32_t time, flags;
};

static struct stats_exported stats_of(const struct table_schema *schema, const void *row)
{
    struct row_stats s;
    memcpy(&s,
           table_row_state(schema, row) + schema_stats_at(schema) - schema_weight_floats(schema),
           sizeof s);
    return (struct stats_exported){s.show, s.click, s.time, s.flags};
}

static void row_export(void *context, const void *row)
{
    struct export *x = context;
    uint32_t width = x->schema->width;
    uint64_t key;
    memcpy(&key, row, sizeof key);
    table_row_weights(x->schema, row, x->number);
    memcpy(x->number + width, table_row_state(x->schema, row),
           (x->floats - width) * sizeof *x->number);
    x->rows++;

    struct stats_exported s = {0};
    if (x->stats)
        s = stats_of(x->schema, row);
    if (x->format == EXPORT_BINARY) {
        x->failed |= fwrite(&key, sizeof key, 1, x->out) != 1 ||
                     fwrite(x->number, sizeof *x->number, x->floats, x->out) != x->floats ||
                     (x->stats && fwrite(&s, sizeof s, 1, x->out) != 1);
        return;
    }

    fprintf(x->out, "0x%016" PRIx64 "%c%u", key, x->separator, key_field(key));
    for (uint32_t i = 0; i < x->floats; i++)
        fprintf(x->out, "%c%.9g", x->separator, (double)x->number[i]);
    if (x->stats)
        fprintf(x->out, "%c%.9g%c%.9g%c%u%c%u", x->separator, (double)s.show, x->separator,
                (double)s.click, x->separator, s.time, x->separator, s.flags);
    x->failed |= fputc('\n', x->out) == EOF;
}

static void head_export(struct export *x, const struct table_schema *s)
{
    if (x->format == EXPORT_BINARY)
        return;
    fprintf(x->out, "key%cfield", x->separator);
    for (uint32_t i = 0; i < x->floats; i++)
        if (i < s->width)
            fprintf(x->out, "%cw%u", x->separator, i);
        else
            fprintf(x->out, "%cs%u", x->separator, i - s->width);
    if (x->stats)
        fprintf(x->out, "%cshow%cclick%ctime%cflags", x->separator, x->separator, x->separator,
                x->separator);
    fputc('\n', x->out);
}

/* The file gets its name only when it is complete. */
static int export_rows(struct reader *from, uint32_t table, struct export *x, bool state,
                       const char *path, struct err *e)
{
    const struct table_schema *s = reader_schema(from, table);
    char half[2 * LIMIT_PATH];
    if (access(path, F_OK) == 0)
        return err_set(e, SHOAL_E_EXISTS, "%s exists already: remove it, or name another file",
                       path);
    (void)snprintf(half, sizeof half, "%.2000s.%d.tmp", path, (int)getpid()); /* one a process */
    x->out = file_stream(half, false);
    if (x->out == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", half, strerror(errno));
    x->schema = s;
    x->stats = state && s->rules.stats != 0;
    x->separator = x->format == EXPORT_CSV ? ',' : '\t';
    x->floats = s->width;
    if (state)
        x->floats += schema_state_floats(s);
    if (x->stats)
        x->floats -= (uint32_t)(sizeof(struct row_stats) / sizeof(float));
    x->number = malloc(x->floats * sizeof *x->number);
    int rc = 0;
    if (x->number == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    head_export(x, s);
    if (rc == 0)
        rc = reader_visit(from, table, row_export, x, e);
    free(x->number);
    x->number = NULL;
    bool good = !x->failed && fflush(x->out) == 0;
    int why = errno;
    if (fclose(x->out) != 0 && good) {
        good = false;
        why = errno;
    }
    if (rc == 0 && good && file_place(half, path) != 0) {
        good = false;
        why = errno;
    }
    if (rc == 0 && why == EEXIST && !good)
        rc = err_set(e, SHOAL_E_EXISTS, "%s exists already: remove it, or name another file", path);
    if (rc == 0 && !good)
        rc = err_set(e, why == ENOSPC ? SHOAL_E_CANTCREATE : SHOAL_E_IO, "cannot write %s: %s",
                     path, strerror(why));
    if (rc != 0)
        (void)file_unlink(half);
    return rc;
}

static uint32_t tablets_of(const struct reader *r, uint32_t table)
{
    return 1u << reader_schema(r, table)->tablet_bits;
}

int checkpoint_export_main(struct option_line *o, struct err *e)
{
    struct reader *from = NULL;
    uint32_t table;
    struct export x = {.format = EXPORT_TSV};
    const char *path = option_text(o, "out");
    if (o->words != 2 || path == NULL)
        return err_set(
            e, SHOAL_E_USAGE,
            "name the folder of a checkpoint or of an ended run, the table and --out FILE; "
            "see `shoal checkpoint export --help`");
    x.format = (enum export_format)option_choice(o, "format");
    int rc = reader_open_in(o->word[0], &from, e);
    if (rc == 0)
        rc = reader_table(from, o->word[1], &table, e);
    bool lacks = rc == 0 && reader_lacks(from, table) > 0;
    if (lacks && !option_given(o, "missing-ok"))
        rc = err_set(e, SHOAL_E_NOINPUT,
                     "%s: %s. With --missing-ok the rows of the other %u of %u tablets of table "
                     "%s are written",
                     o->word[0], reader_lacks_text(from),
                     tablets_of(from, table) - reader_lacks(from, table), tablets_of(from, table),
                     o->word[1]);
    if (rc == 0)
        rc = export_rows(from, table, &x, option_given(o, "state"), path, e);
    if (rc == 0)
        printf("%s: %" PRIu64 " rows of %s, %u numbers each\n", path, x.rows, o->word[1], x.floats);
    if (rc == 0 && lacks)
        printf("not all rows of %s: %u of its %u tablets are missing; %s: %s\n", o->word[1],
               reader_lacks(from, table), tablets_of(from, table), o->word[0],
               reader_lacks_text(from));
    reader_close(from);
    return rc;
}
