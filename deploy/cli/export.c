/* export.c: `shoal export`: opens what the line names, and writes its tables one by one. */
#include "deploy/cli/export.h"

#include "deploy/cli/cli.h"
#include "deploy/cli/reader.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPAN_BYTES (UINT64_C(256) << 20)
#define SHARD_BYTES (UINT64_C(4) << 30)

/* One call of the command. */
struct order {
    const char *where, *since_where; /* as the line has them; since: NULL */
    struct reader *from, *since;     /* owned; since: NULL */
    bool table[LIMIT_TABLES];        /* the tables of `from` to be written */
    bool onnx;                       /* the network, too */
    struct legend names;
    struct export_counts count[LIMIT_TABLES];
    struct export export;
    struct export_folder folder;
    struct export_told told;
};

/* ---- the line -------------------------------------------------------------------------------- */

static int tables_choose(struct order *w, const struct option_line *o, struct err *e)
{
    int rc = 0;
    if (reader_tables(w->from) == 0)
        return err_set(e, SHOAL_E_NOINPUT, "%s has no tables", w->where);
    for (uint32_t i = 0; i < reader_tables(w->from) && o->words == 1; i++)
        w->table[i] = true;
    for (int i = 1; i < o->words && rc == 0; i++) {
        uint32_t table;
        rc = reader_table(w->from, o->word[i], &table, e);
        if (rc == 0)
            w->table[table] = true;
    }
    return rc;
}

/* Refuses words that do not fit the format. */
static int format_check(const struct order *w, struct err *e)
{
    const struct export_format *f = w->export.format;
    if (w->export.stored && f->why_not_stored != NULL)
        return err_set(e, SHOAL_E_USAGE, "--values stored: %s: take npy or safetensors",
                       f->why_not_stored);
    for (uint32_t i = 0; i < reader_tables(w->from); i++) {
        const struct table_schema *s = reader_schema(w->from, i);
        bool none = export_type_facts(export_type_of(s, w->export.stored))->npy == NULL;
        if (w->table[i] && f == &export_npy && none)
            return err_set(e, SHOAL_E_USAGE,
                           "--values stored: the values of table %s are bf16, which npy does not "
                           "have: take --format safetensors, or --values float32",
                           s->name);
    }
    return 0;
}

static uint32_t tablets_of(const struct reader *r, uint32_t table)
{
    return 1u << reader_schema(r, table)->tablet_bits;
}

/* A table with missing tablets is only written where the line asks for it, and a network never. It
 * is not compared either: its rows would be taken for erased ones, or for new ones. */
static int lacks_check(const struct order *w, bool missing_ok, struct err *e)
{
    for (uint32_t i = 0; i < reader_tables(w->from); i++) {
        uint32_t lacks = reader_lacks(w->from, i), all = tablets_of(w->from, i);
        const char *name = reader_schema(w->from, i)->name;
        bool dense = reader_schema(w->from, i)->dense != 0;
        if (lacks == 0 || (!w->table[i] && !(w->onnx && dense)))
            continue;
        if (w->since != NULL)
            return err_set(e, SHOAL_E_NOINPUT,
                           "%s: %s. Its rows would count as erased: export it without --since",
                           w->where, reader_lacks_text(w->from));
        if (!missing_ok)
            return err_set(e, SHOAL_E_NOINPUT,
                           "%s: %s. With --missing-ok the rows of the other %u of %u tablets of "
                           "table %s are written",
                           w->where, reader_lacks_text(w->from), all - lacks, all, name);
        if (dense)
            return err_set(e, SHOAL_E_NOINPUT,
                           "%s: %s. So the network in table %s is not whole: name the other "
                           "tables, without --onnx, to export them alone",
                           w->where, reader_lacks_text(w->from), name);
    }
    for (uint32_t i = 0; w->since != NULL && i < reader_tables(w->since); i++)
        if (reader_lacks(w->since, i) > 0)
            return err_set(e, SHOAL_E_NOINPUT,
                           "%s: %s. Its rows would count as new: take another one, or export "
                           "without --since",
                           w->since_where, reader_lacks_text(w->since));
    return 0;
}

/* Reads the names of fields and tensors. */
static int names_read(struct order *w, struct err *e)
{
    char *text;
    size_t bytes, at, line;
    int rc = reader_job(w->from, &text, &bytes, e);
    if (rc == 0 && text != NULL && legend_line(text, bytes, &at, &line))
        rc = legend_parse(text + at, line, &w->names, e);
    free(text);
    return rc;
}

static int order_open(struct order *w, struct option_line *o, struct err *e)
{
    static const struct export_format *const formats[] = {&export_npy, &export_safetensors,
                                                          &export_tsv, &export_csv};
    w->where = o->word[0];
    w->since_where = option_text(o, "since");
    w->export = (struct export){.format = formats[option_choice(o, "format")],
                                .state = option_given(o, "state"),
                                .stored = option_choice(o, "values") == 1,
                                .span_bytes = SPAN_BYTES,
                                .shard_bytes = SHARD_BYTES};
    w->onnx = option_given(o, "onnx");
    const char *space = option_text(o, "space");
    int rc = reader_open_in(w->where, space, &w->from, e);
    if (rc == 0 && w->since_where != NULL)
        rc = reader_open_in(w->since_where, space, &w->since, e);
    if (rc == 0)
        rc = tables_choose(w, o, e);
    if (rc == 0)
        rc = format_check(w, e);
    if (rc == 0)
        rc = lacks_check(w, option_given(o, "missing-ok"), e);
    if (rc == 0)
        rc = names_read(w, e);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int dense_write(struct order *w, uint32_t i, struct err *e)
{
    const struct table_schema *s = reader_schema(w->from, i);
    bool stats = strcmp(s->name, "dense_stats") == 0;
    enum legend_list list = stats ? LEGEND_STATISTICS : LEGEND_TENSORS;
    if (w->names.count[list] == 0)
        return err_set(e, SHOAL_E_NOINPUT,
                       "%s does not name the tensors of table %s: no job has trained there. Name "
                       "the other tables to export them alone",
                       w->where, s->name);
    export_told_optimizer(&w->told, s);
    return export_tensors(&w->export, w->from, i, w->names.name[list], w->names.count[list],
                          w->told.tensors, &w->count[i], e);
}

static int table_write(struct order *w, uint32_t i, struct err *e)
{
    const struct table_schema *s = reader_schema(w->from, i);
    uint32_t was = UINT32_MAX;
    if (s->dense != 0)
        return dense_write(w, i, e);
    if (w->since != NULL && reader_table(w->since, s->name, &was, NULL) != 0)
        was = UINT32_MAX;
    struct json *arrays = export_told_table(&w->told, s);
    int rc = export_rows(&w->export, w->from, i, w->since, was, arrays, &w->count[i], e);
    if (rc == 0)
        export_told_rows(&w->told, &w->count[i], w->since != NULL);
    return rc;
}

/* Names the tables that only the older place has. A line that names tables asks for no others. */
static void dropped_tell(struct order *w, bool all)
{
    struct json *list = json_new_array();
    uint32_t none;
    for (uint32_t i = 0; all && i < reader_tables(w->since); i++) {
        const char *name = reader_schema(w->since, i)->name;
        if (reader_table(w->from, name, &none, NULL) != 0)
            (void)json_append_string(list, name);
    }
    (void)json_set(w->told.whole, "dropped", list);
}

static int order_write(struct order *w, bool all, struct err *e)
{
    int rc = 0;
    export_told_begin(&w->told, &w->export);
    export_told_folder(&w->told, "checkpoint", w->where);
    export_told_fields(&w->told, &w->names);
    if (w->since != NULL) {
        export_told_folder(&w->told, "since", w->since_where);
        dropped_tell(w, all);
    }
    for (uint32_t i = 0; i < reader_tables(w->from) && rc == 0; i++)
        if (w->table[i])
            rc = table_write(w, i, e);
    if (rc == 0 && w->export.format->finish != NULL)
        rc = w->export.format->finish(&w->export, e);
    if (rc == 0 && w->onnx)
        rc = export_onnx(&w->export, w->from, w->where, e);
    if (rc == 0 && w->onnx)
        (void)json_set_string(w->told.whole, "onnx", EXPORT_ONNX);
    if (rc == 0)
        rc = export_told_write(&w->told, &w->export, e);
    return rc;
}

/* ---- what was written ------------------------------------------------------------------------ */

static void dense_say(const struct order *w, uint32_t i)
{
    const struct export_counts *c = &w->count[i];
    const char *name = reader_schema(w->from, i)->name;
    printf("%s: %u tensor%s of %s\n", w->folder.path, c->tensors, text_if(c->tensors != 1, "s"),
           name);
    if (c->left_out > 0)
        printf("%" PRIu64 " rows of %s are of tensors that the job does not have any more; they "
               "are left out\n",
               c->left_out, name);
}

static void rows_say(const struct order *w, uint32_t i)
{
    const struct export_counts *c = &w->count[i];
    const char *name = reader_schema(w->from, i)->name;
    printf("%s: %" PRIu64 " rows of %s, %u numbers each", w->folder.path, c->rows, name,
           c->numbers);
    if (w->since != NULL)
        printf("; %" PRIu64 " keys erased", c->erased);
    putchar('\n');
    if (reader_lacks(w->from, i) > 0)
        printf("not all rows of %s: %u of its %u tablets are missing; %s: %s\n", name,
               reader_lacks(w->from, i), tablets_of(w->from, i), w->where,
               reader_lacks_text(w->from));
}

static void order_say(const struct order *w)
{
    for (uint32_t i = 0; i < reader_tables(w->from); i++)
        if (w->table[i] && reader_schema(w->from, i)->dense != 0)
            dense_say(w, i);
        else if (w->table[i])
            rows_say(w, i);
    if (w->onnx)
        printf("%s: the network as " EXPORT_ONNX "\n", w->folder.path);
    const struct json *dropped = json_get(w->told.whole, "dropped");
    for (size_t i = 0; i < json_count(dropped); i++)
        printf("table %s is dropped: %s has it, %s does not\n",
               json_as_string(json_array_at(dropped, i), "?"), w->since_where, w->where);
}

int cli_export(struct option_line *o, struct err *e)
{
    struct order w = {.folder.lock = -1};
    const char *out = option_text(o, "out");
    if (o->words < 1 || out == NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "name the folder of a checkpoint or of an ended run, and --out FOLDER; see "
                       "`shoal export --help`");
    int rc = order_open(&w, o, e);
    if (rc == 0)
        rc = export_folder_begin(&w.folder, out, e);
    if (rc == 0) {
        text_copy(w.export.folder, sizeof w.export.folder, w.folder.temporary);
        rc = order_write(&w, o->words == 1, e);
    }
    if (rc == 0)
        rc = export_folder_end(&w.folder, e);
    if (rc == 0)
        order_say(&w);
    export_folder_free(&w.folder);
    export_told_free(&w.told);
    export_free(&w.export);
    legend_free(&w.names);
    reader_close(w.since);
    reader_close(w.from);
    return rc;
}
