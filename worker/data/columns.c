/* columns.c: the columns of parsed examples: made from features, read from a file, and found among
 * those of a file. */
#include "worker/data/columns.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"
#include "worker/data/feature_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTED " weighted"
#define LABEL_REAL "label real"

static const char *const kind_word[COLUMNS_KINDS] = {
    [COLUMNS_LABEL] = "label",   [COLUMNS_WEIGHT] = "weight", [COLUMNS_TIME] = "time",
    [COLUMNS_NUMBER] = "number", [COLUMNS_FIELD] = "field",   [COLUMNS_HASH] = "hash"};

static const char *const field_word[] = {"category", "id", "multi", "multi-id", "bucket", "cross"};
enum {
    FIELD_CATEGORY,
    FIELD_ID,
    FIELD_MULTI,
    FIELD_MULTI_ID,
    FIELD_BUCKET,
    FIELD_CROSS,
    FIELD_WORDS
};
#define BUCKET "bucket" /* with which the text of a bucket's scale begins */

void columns_free(struct columns *c)
{
    free(c->text);
    free(c->one);
    *c = (struct columns){0};
}

/* ---- from features --------------------------------------------------------------------------- */

static int columns_room(struct columns *c, uint32_t count, size_t bytes, struct err *e)
{
    *c = (struct columns){.text = malloc(bytes + 1), .one = calloc(count + 1, sizeof *c->one)};
    if (c->text != NULL && c->one != NULL)
        return 0;
    columns_free(c);
    return err_set(e, SHOAL_E_NOMEM, "no memory for %u columns; free some", count);
}

/* Adds a line of text: `what`, then the name. */
static struct columns_one *line_add(struct columns *c, enum columns_kind kind, const char *name,
                                    const char *what)
{
    struct columns_one *one = &c->one[c->count++];
    *one = (struct columns_one){.kind = kind, .line = c->text + c->bytes};
    int n = snprintf(one->line, COLUMNS_LINE, "%s\t%s", what, name);
    SHOAL_ASSERT(n > 0 && (size_t)n < COLUMNS_LINE);
    one->name = one->line + strlen(what) + 1;
    c->bytes += (size_t)n + 1;
    return one;
}

static struct columns_one *column_add(struct columns *c, const struct features *f,
                                      enum columns_kind kind, uint32_t column, const char *what)
{
    char name[LEGEND_NAME] = "data.partition"; /* for times that come from names of files */
    if (column != FEATURE_NO_COLUMN)
        feature_column_name(f, column, name);
    return line_add(c, kind, name, what);
}

static int word_of(const struct feature_use *use)
{
    if (use->type == COLUMN_NUMBER)
        return FIELD_BUCKET;
    if (use->type == COLUMN_CROSS)
        return FIELD_CROSS;
    if (use->type == COLUMN_CATEGORY)
        return use->id ? FIELD_ID : FIELD_CATEGORY;
    return use->id ? FIELD_MULTI_ID : FIELD_MULTI;
}

/* The parts of a bucket's scale behind its first word, or the hash of a cross. */
static void parts_text(const struct features *f, uint32_t i, char out[SCALE_TEXT])
{
    const struct feature_use *use = &f->field[i];
    uint32_t hash = f->crossed[i];
    char scale[SCALE_TEXT];
    out[0] = '\0';
    if (use->type == COLUMN_CROSS && use->at != FEATURE_PLAIN)
        hash = feature_cross_hash(f, &f->cross[use->at]);
    if (use->type == COLUMN_CROSS && hash != 0)
        snprintf(out, SCALE_TEXT, " ~%08" PRIx32, hash);
    if (use->type != COLUMN_NUMBER || use->at == FEATURE_PLAIN)
        return;
    scale_text(&f->scale[use->at], scale);
    SHOAL_ASSERT(strncmp(scale, BUCKET, strlen(BUCKET)) == 0);
    snprintf(out, SCALE_TEXT, "%s", scale + strlen(BUCKET));
}

static void field_add(struct columns *c, const struct features *f, uint32_t i)
{
    const struct feature_use *use = &f->field[i];
    char what[COLUMNS_LINE], parts[SCALE_TEXT], last[24] = "", name[LEGEND_NAME];
    bool multi = use->type == COLUMN_MULTI, weighted = multi && f->multi_form[i] != MULTI_PLAIN;
    if (multi && use->last != UINT32_MAX)
        snprintf(last, sizeof last, " last %u", use->last);
    else if (multi)
        snprintf(last, sizeof last, " last all");
    parts_text(f, i, parts);
    snprintf(what, sizeof what, "field %s %u%s%s%s", field_word[word_of(use)], use->key_field, last,
             weighted ? WEIGHTED : "", parts);
    feature_use_name(f, use, name);
    struct columns_one *one = line_add(c, COLUMNS_FIELD, name, what);
    one->multi = multi;
    one->weighted = weighted;
    one->field = use->key_field;
}

static void number_add(struct columns *c, const struct features *f, uint32_t i)
{
    const struct feature_use *use = &f->numeric[i];
    char what[COLUMNS_LINE], scale[SCALE_TEXT] = "missing", name[LEGEND_NAME];
    struct scale plain = {.transform = (enum number_transform)use->transform, .known = true};
    if (use->type == COLUMN_NUMBER && use->at != FEATURE_PLAIN)
        scale_text(&f->scale[use->at], scale);
    else if (use->type == COLUMN_NUMBER)
        scale_text(&plain, scale);
    snprintf(what, sizeof what, "number %s", scale);
    feature_use_name(f, use, name);
    line_add(c, COLUMNS_NUMBER, name, what);
}

int columns_of(const struct features *f, struct columns *out, struct err *e)
{
    char what[64];
    uint32_t most = f->shape.tasks + 4 + f->shape.numerics + f->shape.fields + f->by_count;
    SHOAL_ASSERT(most <= COLUMNS_MAX + 1 && !f->predict);
    int rc = columns_room(out, most, (size_t)most * COLUMNS_LINE, e);
    if (rc != 0)
        return rc;
    snprintf(what, sizeof what, "label above %.17g", f->label_above);
    for (uint32_t i = 0; i < f->shape.tasks; i++) {
        bool real = f->real >> i & 1;
        column_add(out, f, COLUMNS_LABEL, f->label[i], real ? LABEL_REAL : what)->real = real;
    }
    if (f->weight != FEATURE_NO_COLUMN)
        column_add(out, f, COLUMNS_WEIGHT, f->weight, kind_word[COLUMNS_WEIGHT]);
    if (features_timed(f))
        column_add(out, f, COLUMNS_TIME, f->time, kind_word[COLUMNS_TIME]);
    for (uint32_t i = 0; i < f->shape.numerics; i++)
        number_add(out, f, i);
    for (uint32_t i = 0; i < f->shape.fields; i++)
        field_add(out, f, i);
    if (f->group != FEATURE_NO_COLUMN)
        column_add(out, f, COLUMNS_HASH, f->group, kind_word[COLUMNS_HASH]);
    for (uint32_t i = 0; i < f->by_count; i++)
        column_add(out, f, COLUMNS_HASH, f->by[i], kind_word[COLUMNS_HASH]);
    if (f->sample != FEATURE_NO_COLUMN)
        column_add(out, f, COLUMNS_HASH, f->sample, kind_word[COLUMNS_HASH]);
    return 0;
}

/* ---- from a file
 * ------------------------------------------------------------------------------ */

static int damaged(const char *file, uint32_t line, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT,
                   "%s: line %u of its columns is none; make the file again (shoal convert)", file,
                   line + 1);
}

/* Parses a whole number below `most` at *at and moves *at behind it. */
static bool number_at(const char **at, uint32_t most, uint32_t *out)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    unsigned long value = strtoul(*at, &end, 10);
    *at = end;
    *out = (uint32_t)value;
    return value < most;
}

/* Parses the end of a multi's line: "", or that its values have weights. */
static bool weighted_parse(struct columns_one *one, const char *at)
{
    one->weighted = strcmp(at, WEIGHTED) == 0;
    return one->weighted || *at == '\0';
}

/* Parses the parts of a bucket's scale. */
static bool bucket_parse(const char *at, struct scale *out)
{
    char text[SCALE_TEXT];
    if (strlen(at) + sizeof BUCKET > sizeof text)
        return false;
    snprintf(text, sizeof text, BUCKET "%s", at);
    return scale_parse(text, out) && out->known && out->transform == NUMBER_BUCKET;
}

/* Parses " ~HASH", or nothing. */
static bool cross_parse(const char *at, uint32_t *hash)
{
    char *end;
    if (*at == '\0')
        return true;
    if (strncmp(at, " ~", 2) != 0 || strspn(at + 2, "0123456789abcdef") != 8)
        return false;
    *hash = (uint32_t)strtoul(at + 2, &end, 16);
    return *end == '\0' && *hash != 0;
}

/* Parses "missing", or a scale that is no bucket. */
static bool number_parse(struct columns_one *one, const char *at)
{
    struct scale s;
    one->missing = strcmp(at, "missing") == 0;
    one->scaled = !one->missing;
    return one->missing || (scale_parse(at, &s) && s.known && s.transform != NUMBER_BUCKET);
}

/* Parses "KIND N[ last M|all[ weighted]]", and what follows the number of a bucket or a cross. */
static bool field_parse(struct columns_one *one, const char *at)
{
    size_t bytes = strcspn(at, " ");
    int word = 0;
    uint32_t last;
    while (word < FIELD_WORDS &&
           (strlen(field_word[word]) != bytes || strncmp(field_word[word], at, bytes) != 0))
        word++;
    if (word == FIELD_WORDS || at[bytes] != ' ')
        return false;
    at += bytes + 1;
    one->multi = word == FIELD_MULTI || word == FIELD_MULTI_ID;
    struct scale s;
    if (!number_at(&at, LIMIT_FIELDS, &one->field))
        return false;
    one->scaled = word == FIELD_BUCKET;
    if (word == FIELD_BUCKET)
        return bucket_parse(at, &s);
    if (word == FIELD_CROSS)
        return cross_parse(at, &one->cross);
    if (!one->multi)
        return *at == '\0';
    if (strncmp(at, " last all", 9) == 0)
        return weighted_parse(one, at + 9);
    return strncmp(at, " last ", 6) == 0 && (at += 6, number_at(&at, UINT32_MAX, &last)) &&
           last > 0 && weighted_parse(one, at);
}

static bool one_parse(struct columns_one *one)
{
    char *tab = strchr(one->line, '\t');
    double limit;
    int used = 0;
    if (tab == NULL || tab[1] == '\0' || strlen(tab + 1) >= LEGEND_NAME)
        return false;
    for (const char *p = tab + 1; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20)
            return false;
    one->name = tab + 1;
    size_t bytes = (size_t)(tab - one->line), word = strcspn(one->line, " \t");
    char what[COLUMNS_LINE];
    snprintf(what, sizeof what, "%.*s", (int)bytes, one->line);
    int kind = 0;
    while (kind < COLUMNS_KINDS &&
           (strlen(kind_word[kind]) != word || strncmp(kind_word[kind], what, word) != 0))
        kind++;
    one->kind = (enum columns_kind)kind;
    switch (kind) {
    case COLUMNS_LABEL:
        one->real = strcmp(what, LABEL_REAL) == 0;
        return one->real ||
               (sscanf(what, "label above %lf%n", &limit, &used) == 1 && (size_t)used == bytes);
    case COLUMNS_WEIGHT:
    case COLUMNS_TIME:
    case COLUMNS_HASH:
        return word == bytes;
    case COLUMNS_NUMBER:
        return what[word] == ' ' && number_parse(one, what + word + 1);
    case COLUMNS_FIELD:
        return what[word] == ' ' && field_parse(one, what + word + 1);
    default:
        return false;
    }
}

/* True when such columns may stand together: kinds in order, at most one weight and one time, and
 * at least one feature. */
static bool fit_together(const struct columns *c)
{
    static const uint32_t most[COLUMNS_KINDS] = {[COLUMNS_LABEL] = LIMIT_TASKS,
                                                 [COLUMNS_WEIGHT] = 1,
                                                 [COLUMNS_TIME] = 1,
                                                 [COLUMNS_NUMBER] = LIMIT_NUMERIC,
                                                 [COLUMNS_FIELD] = LIMIT_FIELDS,
                                                 [COLUMNS_HASH] = 2 + LIMIT_BY};
    uint32_t of[COLUMNS_KINDS] = {0};
    bool good = true;
    for (uint32_t i = 0; i < c->count; i++) {
        good &= i == 0 || c->one[i].kind >= c->one[i - 1].kind;
        good &= ++of[c->one[i].kind] <= most[c->one[i].kind];
    }
    return good && of[COLUMNS_LABEL] > 0 && of[COLUMNS_NUMBER] + of[COLUMNS_FIELD] > 0;
}

int columns_parse(const char *text, size_t bytes, const char *file, struct columns *out,
                  struct err *e)
{
    uint32_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    if (count == 0 || count > COLUMNS_MAX || text[bytes - 1] != '\n' ||
        memchr(text, '\0', bytes) != NULL)
        return damaged(file, 0, e);
    int rc = columns_room(out, count, bytes, e);
    if (rc != 0)
        return rc;
    memcpy(out->text, text, bytes);
    out->bytes = bytes;
    out->count = count;
    char *at = out->text;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        char *end = memchr(at, '\n', (size_t)(out->text + bytes - at));
        *end = '\0';
        out->one[i].line = at;
        if (end - at >= (ptrdiff_t)COLUMNS_LINE || !one_parse(&out->one[i]))
            rc = damaged(file, i, e);
        at = end + 1;
    }
    if (rc == 0 && !fit_together(out))
        rc = damaged(file, count - 1, e);
    if (rc != 0)
        columns_free(out);
    return rc;
}

struct scale columns_scale(const struct columns_one *one)
{
    struct scale s = {.known = true};
    char text[COLUMNS_LINE];
    size_t bytes = (size_t)(one->name - 1 - one->line), digits = strlen("field bucket ");
    snprintf(text, sizeof text, "%.*s", (int)bytes, one->line);
    bool good;
    if (one->kind == COLUMNS_NUMBER)
        good = scale_parse(text + strlen("number "), &s);
    else
        good = bucket_parse(text + digits + strspn(text + digits, "0123456789"), &s);
    SHOAL_ASSERT(good);
    return s;
}

/* ---- wanted columns among those of a file
 * ----------------------------------------------------- */

static int differs(const struct columns_one *wanted, const struct columns *have, const char *file,
                   struct err *e)
{
    int shown = (int)strcspn(wanted->line, "\t");
    for (uint32_t i = 0; i < have->count && wanted->kind == COLUMNS_LABEL; i++)
        if (have->one[i].kind == COLUMNS_LABEL && have->one[i].real != wanted->real &&
            strcmp(have->one[i].name, wanted->name) == 0)
            return err_set(e, SHOAL_E_CONFIG,
                           "label \"%s\" is %s in this job (model.loss), and %s in %s: set "
                           "model.loss to what it was when the file was made, or convert the log "
                           "again",
                           wanted->name, wanted->real ? "a number" : "0 or 1",
                           wanted->real ? "0 or 1" : "a number", file);
    for (uint32_t i = 0; i < have->count; i++)
        if (have->one[i].kind == wanted->kind && strcmp(have->one[i].name, wanted->name) == 0)
            return err_set(e, SHOAL_E_CONFIG,
                           "column \"%s\" is \"%.*s\" in this job, in %s it is \"%.*s\", and what "
                           "it holds was made so; make the job fit, or convert its log again",
                           wanted->name, shown, wanted->line, file,
                           (int)strcspn(have->one[i].line, "\t"), have->one[i].line);
    return err_set(e, SHOAL_E_CONFIG,
                   "%s has no column \"%s\" as \"%.*s\"; leave it out, or convert the log again "
                   "with a job that has it",
                   file, wanted->name, shown, wanted->line);
}

int columns_bind(const struct columns *wanted, const struct columns *have, const char *file,
                 uint32_t *place, struct err *e)
{
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t at = 0;
        while (at < have->count && strcmp(have->one[at].line, wanted->one[i].line) != 0)
            at++;
        if (at == have->count)
            return differs(&wanted->one[i], have, file, e);
        place[i] = at;
    }
    return 0;
}
