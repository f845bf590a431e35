/* import.c: `shoal import`: rows of files go into a table of a running cluster.
 *
 *   the table is found --> files are opened and compared with its schema --> every row is read:
 *   numbers, keys, keys twice --> IMPORT (no job trains in the table; the audit log) --> rows of
 *   erased keys are evicted --> rows are sent, and IMPORT, asks, now and then --> IMPORT, done (no
 *   job has begun since, and no row was dropped)
 *
 * Nothing is written before all of it is checked. A command that was stopped half way is repeated
 * as it stands: the same rows again change nothing. Files are mapped, and read twice: one that
 * changes in between is an error, and so is one that becomes shorter (SIGBUS). */
#include "deploy/cli/import.h"
#include "deploy/cli/key.h"
#include "deploy/cli/reader.h"
#include "proto/base/file.h"
#include "proto/base/rng.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/job/job.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ORDER_MS = 30000, ASKS_MS = 1000 };

struct import {
    struct option_line *o;
    struct reader_place at;
    char space[LIMIT_NAME]; /* whose table; "": the only one's */
    struct reader *reader;
    struct key_place place;
    const struct table_schema *schema;
    uint32_t index; /* number of the table */
    struct import_line line;
    struct import_naming naming;
    struct import_source *source;
    struct import_erased erased;
    struct import_keys *keys;
    float *row;       /* owned */
    uint64_t token;   /* token of this import (coordinator) */
    uint64_t evicted; /* rows of erased keys that are gone */
    double seconds;
};

/* ---- what the line names --------------------------------------------------------------------- */

static bool ends(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static int line_check(struct import *m, struct err *e)
{
    struct option_line *o = m->o;
    struct import_line *l = &m->line;
    l->path = o->words > 1 ? o->word[1] : NULL;
    l->ids = option_text(o, "ids");
    l->weights = option_text(o, "weights");
    l->state = option_text(o, "state");
    l->raw = option_given(o, "raw");
    if (o->words == 0)
        return err_set(e, SHOAL_E_USAGE, "name a table; see `shoal import --help`");
    if (l->path != NULL && ends(l->path, ".npy") && l->weights == NULL) {
        l->weights = l->path;
        l->path = NULL;
    }
    if (l->path == NULL && (l->ids == NULL || l->weights == NULL))
        return err_set(
            e, SHOAL_E_USAGE,
            "name the files: a folder of `shoal export`, a tsv, csv or safetensors file, "
            "or --ids and --weights with npy files");
    if ((l->ids == NULL) != (l->weights == NULL) || (l->state != NULL && l->ids == NULL))
        return err_set(e, SHOAL_E_USAGE,
                       "--ids and --weights belong together, and --state to both");
    if (l->raw && option_given(o, "field"))
        return err_set(e, SHOAL_E_USAGE,
                       "--raw and --field: keys are the table's own, or values "
                       "of a field");
    return 0;
}

/* The file of a table in an export of tsv or csv. */
static int export_text_path(const char *folder, const char *table, char out[LIMIT_PATH],
                            struct json **fields, struct err *e)
{
    char path[LIMIT_PATH];
    struct json *about;
    (void)snprintf(path, sizeof path, "%.*s/export.json", LIMIT_PATH - 16, folder);
    out[0] = 0;
    if (access(path, F_OK) != 0)
        return 0; /* import_files.c says it */
    int rc = cli_json_file(path, &about, e);
    if (rc != 0)
        return rc;
    const char *format = json_get_string(about, "format", "");
    const struct json *tables = json_get(about, "tables");
    for (size_t i = 0; i < json_count(tables); i++) {
        const struct json *t = json_array_at(tables, i);
        const char *file = json_get_string(t, "arrays.0.file", "");
        if (strcmp(json_get_string(t, "name", ""), table) == 0 && strchr(file, '/') == NULL &&
            (strcmp(format, "tsv") == 0 || strcmp(format, "csv") == 0)) {
            (void)snprintf(out, LIMIT_PATH, "%.*s/%.200s", LIMIT_PATH - 256, folder, file);
            *fields = json_hold(json_get(about, "fields"));
        }
    }
    json_free(about);
    return 0;
}

/* Opens what the line names: a folder of `shoal export`, tsv, csv, npy, safetensors; for a dense
 * table a folder alone. */
static int source_open(struct import_line *l, struct import_source **out, struct err *e)
{
    char path[LIMIT_PATH];
    struct stat st;
    bool raw = l->raw;
    if (l->schema->dense)
        return import_dense_open(l, out, e);
    if (l->path != NULL && stat(l->path, &st) == 0 && S_ISDIR(st.st_mode)) {
        int rc = export_text_path(l->path, l->schema->name, path, &l->fields, e);
        if (rc != 0)
            return rc;
        if (path[0] == 0)
            return import_arrays_open(l, out, e);
        l->path = path;
        rc = import_text_open(l, out, e);
        l->path = NULL; /* it was this function's */
        return rc;
    }
    if (l->path == NULL || !import_is_text(l->path))
        return import_arrays_open(l, out, e);
    int rc = import_text_open(l, out, e);
    if (rc == 0 && (*out)->form == IMPORT_RAW && !raw) {
        (*out)->close(*out);
        *out = NULL;
        return err_set(e, SHOAL_E_USAGE,
                       "%s has a column key, keys of tables: --raw takes them as they are, where "
                       "the fields have the same numbers here; values of a field are a column "
                       "value",
                       l->path);
    }
    return rc;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The numbers of an export's fields are those of the tables here: a key begins with its field's. */
static int fields_agree(const struct import *m, struct err *e)
{
    const struct json *fields = m->line.fields;
    for (size_t i = 0; i < json_members(fields); i++) {
        const char *name = json_member_name(fields, i);
        const struct json *of = json_member_at(fields, i);
        if (strcmp(json_get_string(of, "table", ""), m->schema->name) != 0)
            continue;
        const uint32_t at = legend_find(&m->place.names, LEGEND_FIELDS, name);
        const struct legend_name *n = NULL;
        if (at != LEGEND_NONE)
            n = &m->place.names.name[LEGEND_FIELDS][at];
        const int64_t number = json_get_int(of, "number", -1);
        if (n == NULL)
            return err_set(e, SHOAL_E_CONFIG,
                           "the export has rows of field %s, which table %s has not here: submit "
                           "a job with that field first",
                           name, m->schema->name);
        if ((int64_t)n->number != number ||
            strcmp(json_get_string(of, "kind", n->what), n->what) != 0)
            return err_set(e, SHOAL_E_CONFIG,
                           "field %s has number %" PRId64
                           " and is %s in the export, here %u and %s: its keys mean other values "
                           "here",
                           name, number, json_get_string(of, "kind", "?"), n->number, n->what);
    }
    return 0;
}

static const struct legend_name *field_find(const struct legend *n, const char *field)
{
    char name[LEGEND_NAME];
    legend_write(field, strlen(field), 1, name);
    const uint32_t at = legend_find(n, LEGEND_FIELDS, name);
    return at == LEGEND_NONE ? NULL : &n->name[LEGEND_FIELDS][at];
}

static int field_take(struct import *m, const char *field, struct err *e)
{
    const struct legend_name *n = field_find(&m->place.names, field);
    if (n == NULL)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "the tables have no field %s; `shoal tables` lists them", field);
    if (strcmp(n->table, m->schema->name) != 0)
        return err_set(e, SHOAL_E_CONFIG, "the rows of field %s are in table %s, not in %s", field,
                       n->table, m->schema->name);
    m->naming.field = n->number;
    m->naming.id = strncmp(n->what, "id", 2) == 0 || strncmp(n->what, "multi id", 8) == 0;
    if (!m->naming.id && strcmp(n->what, "category") != 0 && strcmp(n->what, "multi") != 0 &&
        strcmp(n->what, "multi weighted") != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "field %s is %s: its keys are not those of values in a file", field,
                       n->what);
    return 0;
}

static int naming_take(struct import *m, struct err *e)
{
    const char *field = option_text(m->o, "field");
    if (m->source->form == IMPORT_RAW) {
        if (field != NULL)
            return err_set(e, SHOAL_E_USAGE,
                           "--field: the files have keys of tables, not values of a field");
        m->naming.raw = true;
        if (m->schema->dense) /* matched by name */
            return 0;
        return fields_agree(m, e);
    }
    if (field != NULL)
        return field_take(m, field, e);
    return err_set(e, SHOAL_E_USAGE,
                   "--field is missing: the files have values, and the field says which keys they "
                   "are");
}

/* ---- checking -------------------------------------------------------------------------------- */

static int row_bad(const struct import *m, const char *why, struct err *e)
{
    char place[LIMIT_PATH + 64];
    m->source->place(m->source, place, sizeof place);
    return err_set(e, SHOAL_E_DATA, "%.400s: %s", place, why);
}

/* Writes the key of a row and its value as the file has it. */
static bool map_write(FILE *f, enum import_form form, uint64_t own, const struct import_key *key)
{
    if (form == IMPORT_TEXT)
        return fprintf(f, "0x%016" PRIx64 "\t%.*s\n", own, (int)key->bytes, key->text) > 0;
    if (key->negative)
        return fprintf(f, "0x%016" PRIx64 "\t%" PRId64 "\n", own, (int64_t)key->number) > 0;
    return fprintf(f, "0x%016" PRIx64 "\t%" PRIu64 "\n", own, key->number) > 0;
}

static int row_check(struct import *m, const struct import_key *key, FILE *map, struct err *e)
{
    struct import_source *s = m->source;
    struct err bad = {0};
    const char *why;
    size_t at;
    if (!table_assign_ok(m->schema, s->parts, m->row, 1, &at, &why))
        return row_bad(m, why, e);
    int rc = import_keys_add(m->keys, s->form, key, &bad);
    if (rc == SHOAL_E_DATA)
        return row_bad(m, bad.text, e);
    if (rc != 0)
        return err_set(e, rc, "%s", bad.text);
    const uint64_t row = import_keys_count(m->keys) - 1;
    if (map != NULL && !map_write(map, s->form, import_keys_at(m->keys, row), key))
        return err_set(e, SHOAL_E_IO, "cannot write the map file: %s", strerror(errno));
    return 0;
}

static int rows_check(struct import *m, FILE *map, struct err *e)
{
    struct import_key key;
    int rc;
    while ((rc = m->source->next(m->source, &key, m->row, e)) > 0)
        if ((rc = row_check(m, &key, map, e)) != 0)
            return rc;
    if (rc == 0 && import_keys_count(m->keys) == 0 && !m->erased.difference)
        rc = err_set(e, SHOAL_E_DATA, "%s has no rows", m->source->names);
    return rc == 0 ? import_keys_check(m->keys, e) : rc;
}

/* Reads every row; with --map it writes the file of keys and values. */
static int check(struct import *m, struct err *e)
{
    const char *path = option_text(m->o, "map");
    FILE *map = NULL;
    int rc = import_keys_new(&m->naming, &m->keys, e);
    m->row = malloc(m->source->floats * sizeof *m->row);
    if (rc == 0 && m->row == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0 && path != NULL && m->naming.raw)
        rc = err_set(e, SHOAL_E_USAGE, "--map: the files have keys of tables, and no values");
    if (rc != 0)
        return rc;
    if (path != NULL && (map = file_stream(path, false)) == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    if (map != NULL)
        (void)fprintf(map, "key\tvalue\n");
    rc = rows_check(m, map, e);
    if (map != NULL && fclose(map) != 0 && rc == 0)
        rc = err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
    return rc;
}

/* ---- sending --------------------------------------------------------------------------------- */

static int import_ask(const struct import *m, struct wire_IMPORT q, uint32_t timeout_ms,
                      struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_IMPORT}, reply;
    struct ask *a = NULL;
    w.u.IMPORT = q;
    w.u.IMPORT.number = m->schema->table;
    w.u.IMPORT.checksum = m->source->checksum;
    w.u.IMPORT.token = m->token;
    text_copy(w.u.IMPORT.table, sizeof w.u.IMPORT.table, m->schema->name);
    text_copy(w.u.IMPORT.file, sizeof w.u.IMPORT.file, m->source->names);
    text_clean(w.u.IMPORT.file);
    int rc = cli_ask_open(m->at.endpoint, NULL, &a, e);
    if (rc == 0)
        rc = cli_ask(a, &w, NULL, timeout_ms, &reply, NULL, e);
    cli_ask_close(a);
    return rc == 0 ? 0 : err_wrap(e, rc, "coordinator %s", m->at.endpoint);
}

static int order(const struct import *m, bool done, uint64_t rows, struct err *e)
{
    return import_ask(m, (struct wire_IMPORT){.rows = rows, .done = done}, ORDER_MS, e);
}

/* Asks in between. While no coordinator answers rows are sent on: the end asks again. */
static int asks(void *context, struct err *e)
{
    int rc = import_ask(context, (struct wire_IMPORT){.asks = true}, ASKS_MS, e);
    return rc == SHOAL_E_STOPPED || rc == SHOAL_E_NOT_FOUND ? rc : 0;
}

static void tell(const struct import *m, const struct import_counts *c)
{
    const uint64_t twice = import_keys_collisions(m->keys);
    if (option_given(m->o, "json")) {
        struct json *j = json_new_object();
        (void)json_set_string(j, "table", m->schema->name);
        (void)json_set_int(j, "rows", (int64_t)import_keys_count(m->keys));
        (void)json_set_int(j, "sent", (int64_t)c->sent);
        (void)json_set_int(j, "new", (int64_t)c->made);
        (void)json_set_int(j, "replaced", (int64_t)c->replaced);
        (void)json_set_int(j, "kept", (int64_t)c->kept);
        (void)json_set_int(j, "blocked", (int64_t)c->blocked);
        (void)json_set_int(j, "collisions", (int64_t)twice);
        (void)json_set_int(j, "erased", (int64_t)m->erased.count);
        (void)json_set_int(j, "evicted", (int64_t)m->evicted);
        (void)json_set_hex(j, "checksum", m->source->checksum);
        (void)json_set_number(j, "seconds", m->seconds); /* the time of sending */
        cli_json_print(j);
        json_free(j);
        return;
    }
    printf("%s: %" PRIu64 " rows: %" PRIu64 " new, %" PRIu64 " replaced", m->schema->name,
           import_keys_count(m->keys), c->made, c->replaced);
    if (c->kept > 0)
        printf(", %" PRIu64 " kept as they were", c->kept);
    putchar('\n');
    if (m->erased.difference)
        printf("%zu keys are erased in the difference: %" PRIu64 " of them had a row, which is "
               "gone\n",
               m->erased.count, m->evicted);
    if (c->blocked > 0)
        printf("%" PRIu64 " keys are blocked or erased by name, and got no row\n", c->blocked);
    if (twice > 0)
        printf("%" PRIu64 " values share their key with an earlier one, and got no row\n", twice);
}

/* Takes the rows of erased keys out of the table. */
static int evict(struct import *m, struct err *e)
{
    const struct reader_naming naming = {
        .action = WIRE_KEY_EVICT, .keys = m->erased.key, .count = m->erased.count};
    if (naming.count == 0)
        return 0;
    struct reader_named *named = malloc(sizeof *named);
    if (named == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = reader_name(m->reader, m->index, &naming, named, e);
    m->evicted = named->changed;
    free(named);
    return rc;
}

static int rows_send(struct import *m, struct import_counts *counts, struct err *e)
{
    const uint64_t began_ns = time_monotonic_ns();
    int rc = import_send(&(struct import_order){.endpoint = m->at.endpoint,
                                                .space = m->space,
                                                .schema = m->schema,
                                                .source = m->source,
                                                .keys = m->keys,
                                                .keep = option_given(m->o, "keep"),
                                                .quiet = option_given(m->o, "json"),
                                                .asks = asks,
                                                .context = m},
                         counts, e);
    m->seconds = (double)(time_monotonic_ns() - began_ns) / 1e9;
    return rc;
}

static int send(struct import *m, struct err *e)
{
    struct import_counts counts = {.sent = 0};
    m->token = rng_mix(time_monotonic_ns() + ((uint64_t)getpid() << 40)) | 1;
    int rc = order(m, false, import_keys_count(m->keys), e);
    if (rc != 0)
        return rc;
    rc = evict(m, e);
    if (rc == 0)
        rc = rows_send(m, &counts, e);
    if (rc == 0) {
        rc = order(m, true, counts.made + counts.replaced, e);
    } else {
        struct err ignored = {0};
        (void)order(m, true, counts.made + counts.replaced, &ignored);
    }
    if (rc != 0)
        return err_wrap(e, rc,
                        "%" PRIu64 " of %" PRIu64
                        " rows were sent; the same line again puts in all of them",
                        counts.sent, import_keys_count(m->keys));
    tell(m, &counts);
    return 0;
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* Submits a job that only makes its tables, and waits for its end. */
static int found(const struct import *m, const char *path, struct err *e)
{
    static const char *const keys[] = {"train.skip=true",
                                       "data.valid=[]",
                                       "data.test=[]",
                                       "start_from=\"\"",
                                       "train.early_stop.patience=0",
                                       "checkpoint.at_end=false"};
    struct string_list set = {0};
    int rc = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && rc == 0; i++)
        rc = config_list_add(&set, keys[i]);
    if (rc != 0)
        rc = err_set(e, rc, "out of memory");
    if (rc == 0)
        rc = cli_submit_job(&(struct submit_order){.path = path,
                                                   .set = &set,
                                                   .coordinator = m->at.endpoint,
                                                   .workers = 1,
                                                   .wait = true},
                            e);
    config_list_free(&set);
    return rc;
}

/* Names the space whose table it is: that of --job, else that of --space; "": the only one. Rows
 * that are for a job's tables must not replace those of another space. */
static int space_take(struct import *m, struct err *e)
{
    const char *path = option_text(m->o, "job"), *given = option_text(m->o, "space");
    struct job job;
    if (given != NULL && strlen(given) >= LIMIT_NAME)
        return err_set(e, SHOAL_E_USAGE, "--space: a name has at most %u bytes", LIMIT_NAME - 1);
    text_copy(m->space, sizeof m->space, text_or(given, ""));
    if (path == NULL)
        return 0;
    int rc = job_load(path, NULL, &job, e);
    if (rc != 0)
        return rc;
    text_copy(m->space, sizeof m->space, job.space);
    job_free(&job);
    if (given != NULL && strcmp(given, m->space) != 0)
        return err_set(e, SHOAL_E_USAGE, "--space %s: the job of %s is of space %s: take it away",
                       given, path, m->space);
    return 0;
}

static int table_look(struct import *m, struct err *e)
{
    int rc = reader_open_space(m->o, m->space, &m->reader, e);
    return rc == 0 ? reader_table(m->reader, m->o->word[0], &m->index, e) : rc;
}

/* With --job the table is made where there is none. */
static int table_open(struct import *m, struct err *e)
{
    const char *job = option_text(m->o, "job");
    int rc = space_take(m, e);
    if (rc != 0)
        return rc;
    rc = table_look(m, e);
    if (job == NULL || (rc != SHOAL_E_NOT_FOUND && rc != SHOAL_E_UNAVAILABLE))
        return rc;
    reader_close(m->reader);
    m->reader = NULL;
    rc = found(m, job, e);
    return rc == 0 ? table_look(m, e) : rc;
}

static int table_find(struct import *m, struct err *e)
{
    int rc = reader_find(m->o, &m->at, e);
    if (rc == 0 && m->at.kind != READER_LIVE)
        rc = err_set(e, SHOAL_E_UNAVAILABLE,
                     "%s: rows go into the tables of a running cluster, and none runs there",
                     m->at.folder);
    if (rc == 0)
        rc = table_open(m, e);
    if (rc != 0)
        return rc;
    m->schema = reader_schema(m->reader, m->index);
    m->line.schema = m->schema;
    m->line.names = &m->place.names;
    return key_place_open(m->o, m->reader, &m->place, e);
}

/* A mapped file has become shorter. */
static void bus_cb(int number)
{
    static const char said[] = "shoal: import: a file became shorter while it was read: write it "
                               "anew, then type the same line again\n";
    (void)number;
    (void)!write(STDERR_FILENO, said, sizeof said - 1);
    _exit(err_exit_status(SHOAL_E_DATA));
}

/* The keys that a difference erases. */
static int erased_take(struct import *m, struct err *e)
{
    int rc = import_erased_read(&m->line, &m->erased, e);
    if (rc == 0 && m->erased.difference && option_given(m->o, "keep"))
        rc = err_set(e, SHOAL_E_USAGE,
                     "--keep: %s is a difference (shoal export --since): its rows take the place "
                     "of those that there are, and others go",
                     m->line.path);
    return rc;
}

int cli_import(struct option_line *o, struct err *e)
{
    struct import m = {.o = o};
    (void)sigaction(SIGBUS, &(struct sigaction){.sa_handler = bus_cb}, NULL);
    int rc = line_check(&m, e);
    if (rc == 0)
        rc = table_find(&m, e);
    if (rc == 0)
        rc = erased_take(&m, e);
    if (rc == 0)
        rc = source_open(&m.line, &m.source, e);
    if (rc == 0)
        rc = naming_take(&m, e);
    if (rc == 0)
        rc = check(&m, e);
    if (rc == 0 && option_given(o, "check"))
        printf("%s: %" PRIu64 " rows can be imported\n", m.schema->name, import_keys_count(m.keys));
    else if (rc == 0)
        rc = send(&m, e);
    import_erased_free(&m.erased);
    free(m.row);
    import_keys_free(m.keys);
    if (m.source != NULL)
        m.source->close(m.source);
    json_free(m.line.fields);
    key_place_close(&m.place);
    reader_close(m.reader);
    return rc;
}
