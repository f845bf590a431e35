/* propose_job.c: writes the job file of a proposal. */
#include "worker/data/propose.h"

#include "proto/base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words of YAML and of a shell ------------------------------------------------------------ */

static bool is_plain(const char *text)
{
    static const char *const other[] = {"y",  "n",   "yes",  "no", "true", "false",
                                        "on", "off", "null", "~",  NULL};
    char small[LIMIT_NAME];
    size_t n = strlen(text);
    if (n == 0 || n >= sizeof small || !(isalpha((unsigned char)text[0]) || text[0] == '_'))
        return false;
    for (size_t i = 0; i <= n; i++)
        small[i] = (char)tolower((unsigned char)text[i]);
    for (size_t i = 0; other[i] != NULL; i++)
        if (strcmp(small, other[i]) == 0)
            return false;
    return strspn(small, "abcdefghijklmnopqrstuvwxyz0123456789_-") == n;
}

/* A scalar: as it is, or in double quotes. */
static void scalar(FILE *f, const char *text)
{
    if (is_plain(text)) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(f, "\\x%02x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

/* Adds a word of a command in single quotes. */
static void shell_word(char *out, size_t bytes, const char *word)
{
    size_t at = strlen(out);
    bool bare =
        word[0] != '\0' &&
        strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") ==
            strlen(word);
    if (bare) {
        (void)snprintf(out + at, bytes - at, "%s", word);
        return;
    }
    if (at + 1 < bytes)
        out[at++] = '\'';
    for (const char *p = word; *p != '\0' && at + 6 < bytes; p++) {
        if (*p == '\'') {
            memcpy(out + at, "'\\''", 4);
            at += 4;
        } else {
            out[at++] = *p;
        }
    }
    out[at++] = '\'';
    out[at] = '\0';
}

/* ---- the files ------------------------------------------------------------------------------- */

static void files_put(FILE *f, const char *key, const struct string_list *names)
{
    fprintf(f, "  %s: ", key);
    if (names->count == 1) {
        scalar(f, names->item[0]);
        fputc('\n', f);
        return;
    }
    fputs("\n", f);
    for (size_t i = 0; i < names->count; i++) {
        fputs("    - ", f);
        scalar(f, names->item[i]);
        fputc('\n', f);
    }
}

/* Adds the path of a file. A relative one begins with a point: awk takes a=b.csv for an assignment,
 * and each program -x.csv for an option. */
static void path_word(char *out, size_t bytes, const char *path)
{
    char word[LIMIT_PATH + 3];
    (void)snprintf(word, sizeof word, "%s%s", path[0] == '/' || path[0] == '.' ? "" : "./", path);
    shell_word(out, bytes, word);
}

/* A command that prints the rows of a condition, and the header. */
static void command_put(FILE *f, const struct survey *s, const struct proposal *p, const char *key,
                        const char *condition)
{
    char command[4 * LIMIT_PATH] = "", header[40] = "";
    const char *path = s->part[GUESS_TRAIN].names.item[0];
    if (p->unpack[0] != '\0') {
        (void)snprintf(command, sizeof command, "%s ", p->unpack);
        path_word(command, sizeof command, path);
        size_t at = strlen(command);
        (void)snprintf(command + at, sizeof command - at, " | ");
    }
    size_t at = strlen(command);
    if (s->features.header && strncmp(condition, "NR <=", 5) != 0)
        (void)snprintf(header, sizeof header, "NR == %" PRIu64 " || ", s->head_line);
    (void)snprintf(command + at, sizeof command - at, "awk '%s%s'%s", header, condition,
                   p->unpack[0] != '\0' ? "" : " ");
    if (p->unpack[0] == '\0')
        path_word(command, sizeof command, path);
    fprintf(f, "  %s: {cmd: ", key);
    scalar(f, command);
    fputs("}\n", f);
}

static void split_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    char condition[64];
    double before = (double)(s->head_line - !s->features.header); /* lines without a row */
    double border = s->part[GUESS_TRAIN].all * 0.9 + before;
    if (p->split == PROPOSE_LAST) {
        fprintf(f, "  # The rows are in order of time, so %sthe last tenth of them validates.\n",
                s->part[GUESS_TRAIN].whole ? "" : "about ");
        (void)snprintf(condition, sizeof condition, "NR <= %.0f", border);
        command_put(f, s, p, "train", condition);
        (void)snprintf(condition, sizeof condition, "NR > %.0f", border);
        command_put(f, s, p, "valid", condition);
    } else {
        fputs("  # There is no file to validate by, so each tenth row does.\n", f);
        command_put(f, s, p, "train", "NR % 10 != 2");
        command_put(f, s, p, "valid", "NR % 10 == 2");
    }
}

static void inputs_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    static const char *const key[] = {"train", "valid", "test"};
    uint32_t from = 0;
    if (p->split == PROPOSE_TENTH || p->split == PROPOSE_LAST) {
        split_put(f, s, p);
        from = GUESS_TEST;
    }
    for (uint32_t i = from; i < GUESS_ROLES; i++)
        if (s->part[i].names.count > 0)
            files_put(f, key[i], &s->part[i].names);
}

/* ---- columns --------------------------------------------------------------------------------- */

static bool same_use(const struct propose_column *a, const struct propose_column *b)
{
    return a->use == b->use && a->whole == b->whole && a->weighted == b->weighted &&
           a->separator == b->separator &&
           (a->use != PROPOSE_NUMBER || strcmp(a->transform, b->transform) == 0) &&
           strcmp(a->why, b->why) == 0;
}

/* "n12" -> 12 and the bytes before it; UINT32_MAX: it ends in no number. */
static uint32_t numbered(const char *name, size_t *before)
{
    size_t n = strlen(name), at = n;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    *before = at;
    if (at == 0 || at == n || n - at > 6 || (name[at] == '0' && n - at > 1))
        return UINT32_MAX;
    return (uint32_t)strtoul(name + at, NULL, 10);
}

/* The number of columns from i on that one range names: n1, n2, n3. */
static uint32_t range_of(const struct survey *s, const struct proposal *p, uint32_t i)
{
    size_t before, other;
    uint32_t first = numbered(s->column[i].name, &before), n = 1;
    if (first == UINT32_MAX)
        return 1;
    for (; i + n < s->columns; n++) {
        const char *name = s->column[i + n].name;
        if (!same_use(&p->column[i], &p->column[i + n]) || numbered(name, &other) != first + n ||
            other != before || memcmp(name, s->column[i].name, before) != 0)
            break;
    }
    return n >= 3 ? n : 1;
}

static void separator_put(FILE *f, char separator)
{
    char text[2] = {separator, '\0'};
    if (separator == '|' || separator == '\n') /* the default */
        return;
    fputs(", separator: ", f);
    scalar(f, text);
}

static void column_put(FILE *f, const struct survey *s, const struct proposal *p, uint32_t i,
                       uint32_t count)
{
    const struct propose_column *c = &p->column[i];
    char name[2 * LIMIT_NAME + 2];
    (void)snprintf(name, sizeof name, "%s", s->column[i].name);
    if (count > 1) {
        size_t at = strlen(name);
        (void)snprintf(name + at, sizeof name - at, "..%s", s->column[i + count - 1].name);
    }
    if (c->why[0] != '\0')
        propose_wrap(f, "    # ", "    # ", c->why);
    fputs("    - {name: ", f);
    scalar(f, name);
    if (c->use == PROPOSE_SKIP || c->use == PROPOSE_TIME)
        fputs(", type: skip", f);
    if (c->use == PROPOSE_LABEL)
        fputs(", type: label", f);
    if (c->use == PROPOSE_NUMBER)
        fprintf(f, ", type: number, transform: %s", c->transform);
    if (c->use == PROPOSE_MULTI) {
        fputs(", type: multi", f);
        separator_put(f, c->separator);
        fputs(c->weighted ? ", weighted: true" : "", f);
    }
    fputs(c->whole ? ", whole: true}" : "}", f);
    fputc('\n', f);
}

/* True when the job has to say something of the column. */
static bool is_said(const struct survey *s, const struct propose_column *c)
{
    bool listed = s->layout.format == DATA_CSV && !s->layout.header;
    if (!format_of(s->layout.format)->named)
        return false;
    if (listed)
        return true;
    if (c->use == PROPOSE_TIME || c->use == PROPOSE_LABEL)
        return false;
    return c->use != PROPOSE_CATEGORY || c->whole || c->why[0] != '\0';
}

static void columns_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    bool begun = false;
    for (uint32_t i = 0, n; i < s->columns; i += n) {
        n = range_of(s, p, i);
        if (!is_said(s, &p->column[i]))
            continue;
        if (!begun)
            fputs("  # A column that is not named here is a category.\n  columns:\n", f);
        begun = true;
        column_put(f, s, p, i, n);
    }
}

/* ---- the sections ---------------------------------------------------------------------------- */

static void csv_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    const char *delimiter = s->layout.delimiter;
    if (strcmp(delimiter, ",") != 0) {
        fputs("  delimiter: ", f);
        scalar(f, strcmp(delimiter, "\t") == 0 ? "tab" : delimiter);
        fputc('\n', f);
    }
    if (!s->layout.header)
        fputs("  header: false\n", f);
    if (p->comma)
        fputs("  decimal: comma\n", f);
}

static void label_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    const struct survey_label *l = &p->label;
    char why[PROPOSE_WHY + 64];
    (void)snprintf(why, sizeof why, "The label: %s%s.", p->label_why,
                   p->label_sure ? "" : " (not sure)");
    propose_wrap(f, "  # ", "  # ", why);
    if (format_of(s->layout.format)->named && (s->layout.header || s->layout.format != DATA_CSV)) {
        fputs("  label: ", f);
        scalar(f, s->column[l->column].name);
        fputc('\n', f);
    }
    if (p->candidates > 0) {
        char others[PROPOSE_CANDIDATES * (LIMIT_NAME + 2) + 32] = "Others that may be it:";
        for (uint32_t i = 0; i < p->candidates; i++) {
            char name[LIMIT_NAME];
            text_copy(name, sizeof name, s->column[p->candidate[i]].name);
            size_t at = strlen(others);
            (void)snprintf(others + at, sizeof others - at, "%s %s", i > 0 ? "," : "",
                           text_clean(name));
        }
        propose_wrap(f, "  # ", "  # ", others);
    }
    if (l->words) {
        fputs("  label_positive: [", f);
        scalar(f, l->positive);
        fputs("]\n", f);
    }
    if (l->parted)
        fprintf(f, "  label_above: %g\n", l->above);
}

static void missing_put(FILE *f, const struct proposal *p)
{
    bool begun = false;
    for (uint32_t i = 0; i < FORM_MISSING; i++) {
        if ((p->missing >> i & 1) == 0)
            continue;
        fputs(begun ? ", " : "  missing: [", f);
        fprintf(f, "'%s'", column_form_missing(i));
        begun = true;
    }
    if (begun)
        fputs("]\n", f);
}

/* Rows that a job would refuse count against data.max_bad, which has room for a tenth more of them
 * and one row in a hundred. */
static void bad_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    const struct survey_part *t = &s->part[GUESS_TRAIN];
    double bad = (double)(t->bad + p->unlabelled), rows = (double)(t->rows + t->bad);
    if (rows == 0 || bad < rows * 0.0005)
        return;
    double share = bad / rows * 1.1 + 0.01;
    if (p->unlabelled > 0)
        fprintf(f,
                "  # %" PRIu64 " of %.0f rows have no label: they count as malformed and are "
                "left out.\n",
                p->unlabelled, rows);
    if (t->bad > 0)
        fprintf(f, "  # %" PRIu64 " of %.0f rows are malformed, and are left out.\n", t->bad, rows);
    fprintf(f, "  max_bad: %.3g\n", share < 1 ? share : 1);
}

static void data_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    fputs("data:\n", f);
    propose_wrap(f, "  # ", "  # ", s->layout.why);
    fprintf(f, "  format: %s\n", format_name(s->layout.format));
    inputs_put(f, s, p);
    if (s->layout.format == DATA_CSV)
        csv_put(f, s, p);
    label_put(f, s, p);
    if (p->time != FEATURE_NO_COLUMN) {
        const char *unit = column_form_unit(p->time_form),
                   *format = column_form_format(p->time_form);
        fputs("  time: ", f);
        scalar(f, s->column[p->time].name);
        fprintf(f, "  # %s; no feature\n", column_form_called(p->time_form));
        if (unit[0] != '\0')
            fprintf(f, "  time_unit: %s\n", unit);
        if (format[0] != '\0')
            fprintf(f, "  time_format: '%s'\n", format);
    }
    missing_put(f, p);
    bad_put(f, s, p);
    columns_put(f, s, p);
    if (p->group != FEATURE_NO_COLUMN) {
        fputs("evaluate: {group: ", f);
        scalar(f, s->column[p->group].name);
        fputs("}  # AUC within each of them, too\n", f);
    }
}

/* Settings by the number of rows: a job of few rows needs small batches and a small network. */
static void model_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    double rows =
        s->part[GUESS_TRAIN].all > 0 ? s->part[GUESS_TRAIN].all : (double)s->part[GUESS_TRAIN].rows;
    uint32_t batch = 64;
    while (batch < 4096 && batch * 200.0 < rows)
        batch *= 2;
    bool valid = p->split != PROPOSE_NONE, few = rows < 30000;
    bool pairs = p->fields > 1;
    const char *stop = p->label.real ? ", early_stop: {metric: rmse, patience: 2, lr_decay: 0.1}"
                                     : ", early_stop: {metric: auc, patience: 2, lr_decay: 0.1}";
    fprintf(f, "tables: [{name: emb, dim: %d, optimizer: {kind: adam, lr: 0.005}}]\n",
            few ? 8 : 16);
    fprintf(f, "model: {kind: %s, hidden: %s%s}\n", pairs ? "deepfm" : "wide_deep",
            few ? "[32, 16]" : "[128, 64], norm: batch, dropout: 0.1",
            p->label.real ? ", loss: mse" : "");
    fprintf(f, "train: {batch: %u, epochs: %d%s}\n", batch, valid ? 20 : 1, valid ? stop : "");
}

char *propose_job(const struct survey *s, const struct proposal *p, bool whole)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (f == NULL)
        return NULL;
    if (whole) {
        fputs("# Proposed by `shoal data`: read the comments, change what is wrong, then run it:\n"
              "#     shoal local THIS-FILE\n",
              f);
        for (uint32_t i = 0; i < p->notes; i++)
            propose_wrap(f, "# Note: ", "#   ", p->note[i]);
    }
    data_put(f, s, p);
    if (whole)
        model_put(f, s, p);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
