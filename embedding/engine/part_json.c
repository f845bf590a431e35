/* part_json.c: writes and reads the manifest of a part. Invariant 1: part.c. */
#include "embedding/engine/part.h"

#include "embedding/journal/record_schema.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/json.h"
#include "proto/base/minmax.h"
#include "proto/base/sign.h"
#include "proto/job/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing ---- */

static struct json *number_new(uint64_t x)
{
    char text[24];

    if (x <= INT64_MAX)
        return json_new_int((int64_t)x);
    snprintf(text, sizeof text, "0x%016" PRIx64, x);
    return json_new_string(text);
}

static void number_set(struct json *j, const char *key, uint64_t x)
{
    json_set(j, key, number_new(x));
}

static struct json *run_json(const struct cut_facts *f)
{
    struct json *run = json_new_object(), *lanes = json_new_array();
    char tables[TABLE_SET_TEXT];

    SHOAL_ASSERT(f->lanes <= LIMIT_LANES);
    number_set(run, "run", f->run);
    table_set_text(f->tables, tables);
    json_set_string(run, "tables", tables);
    json_set_int(run, "mode", f->mode);
    for (uint32_t lane = 0; lane < f->lanes; lane++)
        json_append(lanes, number_new(f->lowest[lane]));
    json_set(run, "lanes", lanes);
    return run;
}

static void schema_set(struct json *table, const struct part *p, const struct table_schema *s)
{
    unsigned char bytes[RECORD_SCHEMA_BYTES];
    char digits[2 * RECORD_SCHEMA_BYTES + 1];
    size_t count = record_schema_bytes(s);
    struct json *tablets = json_new_array();

    SHOAL_ASSERT(count <= sizeof bytes);
    record_schema_write(s, bytes);
    sign_hex(bytes, count, digits);
    json_set_string(table, "schema", digits);
    for (uint32_t i = 0; i < p->ranges; i++) {
        if (p->range[i].table != s->table)
            continue;
        struct json *range = json_new_array();
        json_append(range, json_new_int(p->range[i].first));
        json_append(range, json_new_int(p->range[i].count));
        json_append(tablets, range);
    }
    json_set(table, "tablets", tablets);
}

static struct json *tables_json(const struct part *p)
{
    const struct cut_facts *f = &p->facts;
    struct json *list = json_new_array();

    TABLE_SET_EACH (i, &f->existing) {
        const struct table_schema *s = part_table(p, i);
        struct json *table = s != NULL ? manifest_table(s, "") : json_new_object();
        if (s == NULL)
            json_set_int(table, "table", i);
        if (f->sized) {
            number_set(table, "rows", f->table_rows[i]);
            number_set(table, "bytes", f->table_bytes[i]);
        }
        if (s != NULL)
            schema_set(table, p, s);
        json_append(list, table);
    }
    return list;
}

static struct json *files_json(const struct part *p)
{
    struct json *list = json_new_array();
    uint64_t named = 0;

    for (uint32_t i = 0; i < p->files; i++) {
        const struct part_file *f = &p->file[i];
        struct json *file = json_new_object();
        json_set_string(file, "file", f->name);
        number_set(file, "bytes", f->bytes);
        if (f->summed)
            json_set_hex(file, "xxh3", f->checksum);
        json_append(list, file);
        named += f->bytes;
    }
    SHOAL_ASSERT(named == p->facts.bytes); /* otherwise the manifest could not be read */
    return list;
}

/* Returns the manifest's text; NULL: no memory. */
static char *text_of(const struct part *p)
{
    const struct cut_facts *f = &p->facts;
    struct json *m = json_new_object();

    json_set_int(m, "format", MANIFEST_FORMAT);
    if (p->parts > 0) {
        SHOAL_ASSERT(p->part < p->parts);
        json_set_int(m, "part", p->part);
        json_set_int(m, "parts", p->parts);
    }
    number_set(m, "cut", f->cut);
    number_set(m, "sequence", f->sequence);
    number_set(m, "rows", f->rows);
    number_set(m, "bytes", f->bytes);
    json_set(m, "run", run_json(f));
    json_set(m, "tables", tables_json(p));
    json_set(m, "files", files_json(p));
    char *text = manifest_text(m);
    json_free(m);
    return text;
}

int part_write(const char *dir, const struct part *p, struct err *e)
{
    char path[LIMIT_PATH + 16], *text = text_of(p);
    int rc = 0;

    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the manifest of %s", dir);
    snprintf(path, sizeof path, "%s/" PART_MANIFEST, dir);
    int fd = file_open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
    if (fd < 0 || file_write_all(fd, text, strlen(text)) != 0 || file_sync(fd) != 0)
        rc = err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(text);
    return rc;
}

/* ---- reading ---- */

static bool number_take(const struct json *x, uint64_t *out)
{
    int64_t number = json_as_int(x, -1);

    *out = (uint64_t)MAX(number, 0);
    return number >= 0 || manifest_hex(x, out);
}

static bool number_of(const struct json *j, const char *key, uint64_t *out)
{
    return number_take(json_get(j, key), out);
}

static bool small_of(const struct json *j, const char *key, uint32_t limit, uint32_t *out)
{
    uint64_t number;

    *out = 0;
    if (!number_of(j, key, &number) || number >= limit)
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool run_take(const struct json *run, struct cut_facts *f)
{
    const struct json *lanes = json_get(run, "lanes");

    if (!number_of(run, "run", &f->run) ||
        !table_set_parse(json_get_string(run, "tables", ""), &f->tables) ||
        !small_of(run, "mode", 2 * RUN_APART, &f->mode) || !run_mode_known(f->mode) ||
        json_count(lanes) > LIMIT_LANES)
        return false;
    f->lanes = (uint32_t)json_count(lanes);
    for (uint32_t lane = 0; lane < f->lanes; lane++)
        if (!number_take(json_array_at(lanes, lane), &f->lowest[lane]))
            return false;
    return (f->run == 0) == (f->lanes == 0);
}

static int tablets_take(struct part *p, uint32_t table, const struct json *tablets)
{
    int rc = 0;

    for (size_t i = 0; i < json_count(tablets) && rc == 0; i++) {
        uint32_t first, count;
        const struct json *range = json_array_at(tablets, i);
        if (!small_of(range, "0", LIMIT_TABLETS, &first) ||
            !small_of(range, "1", LIMIT_TABLETS + 1, &count))
            return SHOAL_E_CORRUPT;
        rc = part_add_range(p, table, first, count);
    }
    return rc;
}

/* True when the tables so far have lower numbers. */
static bool is_last(const struct cut_facts *f, uint32_t number)
{
    return table_set_next(&f->existing, number) == LIMIT_TABLES;
}

static int table_take(struct part *p, const struct json *table, struct err *e)
{
    struct cut_facts *f = &p->facts;
    const char *schema = json_get_string(table, "schema", NULL);
    uint32_t number;

    if (!small_of(table, "table", LIMIT_TABLES, &number) || !is_last(f, number))
        return SHOAL_E_CORRUPT;
    f->sized &= number_of(table, "rows", &f->table_rows[number]) &&
                number_of(table, "bytes", &f->table_bytes[number]);
    table_set_add(&f->existing, number);
    if (p->parts == 0)
        return 0;
    if (schema == NULL)
        return SHOAL_E_CORRUPT;
    int rc = part_add_table(p, number, schema, strlen(schema), e);
    if (rc != 0)
        return rc;
    return tablets_take(p, number, json_get(table, "tablets"));
}

static int tables_take(struct part *p, const struct json *tables, struct err *e)
{
    int rc = 0;

    p->facts.sized = json_count(tables) > 0;
    for (size_t i = 0; i < json_count(tables) && rc == 0; i++)
        rc = table_take(p, json_array_at(tables, i), e);
    return rc;
}

static int files_take(struct part *p, const struct json *files)
{
    int rc = 0;

    for (size_t i = 0; i < json_count(files) && rc == 0; i++) {
        const struct json *f = json_array_at(files, i), *sum = json_get(f, "xxh3");
        const char *name = json_get_string(f, "file", "");
        uint64_t bytes, checksum;
        bool summed = p->parts > 0 || strncmp(name, "rows/", 5) != 0 || sum != NULL;
        if (!number_of(f, "bytes", &bytes) || (summed && !manifest_hex(sum, &checksum)))
            return SHOAL_E_CORRUPT;
        rc = part_add_file(p, name, bytes, summed ? &checksum : NULL);
    }
    return rc;
}

/* Sets *what to the name of the first invalid member. */
static int content_take(struct part *p, const struct json *m, const char **what, struct err *e)
{
    struct cut_facts *f = &p->facts;
    uint64_t bytes;
    int rc;

    *what = "part";
    if (json_get(m, "parts") != NULL && (!small_of(m, "parts", LIMIT_SHARDS + 1, &p->parts) ||
                                         !small_of(m, "part", p->parts, &p->part)))
        return SHOAL_E_CORRUPT;
    *what = "cut, sequence or rows";
    if (!number_of(m, "cut", &f->cut) || !number_of(m, "sequence", &f->sequence) ||
        !number_of(m, "rows", &f->rows))
        return SHOAL_E_CORRUPT;
    *what = "run";
    if (!run_take(json_get(m, "run"), f))
        return SHOAL_E_CORRUPT;
    *what = "tables";
    rc = tables_take(p, json_get(m, "tables"), e);
    if (rc != 0)
        return rc;
    *what = "files";
    rc = files_take(p, json_get(m, "files"));
    if (rc != 0)
        return rc;
    *what = "bytes";
    if (!number_of(m, "bytes", &bytes) || bytes != f->bytes)
        return SHOAL_E_CORRUPT;
    return 0;
}

int part_json_read(const char *text, size_t bytes, struct part *p, struct err *e)
{
    struct json *m = NULL;
    const char *what = "";
    struct err why = {0};
    int rc = manifest_frame(text, bytes, &m, &why);

    if (rc == SHOAL_E_VERSION || rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "%s/" PART_MANIFEST ": %s", p->dir, why.text);
    if (rc != 0)
        return err_set(e, SHOAL_E_CORRUPT, "%s/" PART_MANIFEST ": %s; use another one", p->dir,
                       why.text);
    rc = content_take(p, m, &what, e);
    json_free(m);
    if (rc == 0)
        return 0;
    if (rc == SHOAL_E_VERSION)
        return err_wrap(e, rc, "%s/" PART_MANIFEST, p->dir);
    if (rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "no memory for %s/" PART_MANIFEST, p->dir);
    return err_set(e, SHOAL_E_CORRUPT, "%s/" PART_MANIFEST ": '%s' is missing or out of range",
                   p->dir, what);
}
