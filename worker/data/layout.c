/* layout.c: tries the readers on the first lines of a text. */
#include "worker/data/layout.h"

#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "worker/data/events_inner.h"
#include "worker/data/feature.h"
#include "worker/data/guess.h"
#include "worker/data/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 400u
_Static_assert(LAYOUT_COLUMNS == CELLS_MAX, "a line has as many cells");

#define FIT_WELL 0.95 /* share of lines with the same number of columns */
#define FIT_LEAST 0.6

struct text {
    const char *name;
    struct cell line[LINES]; /* lines that are not empty, without their ends */
    uint32_t lines;
    char *room;                /* owned; (LIMIT_LINE_BYTES + 1): a line that a reader may change */
    struct cell *cell;         /* owned; (CELLS_MAX) */
    struct features *features; /* owned; the delimiter alone is set */
};

static void text_free(struct text *t)
{
    free(t->room);
    free(t->cell);
    free(t->features);
}

static int text_make(struct text *t, const char *name, const char *at, size_t bytes, bool cut,
                     struct err *e)
{
    const char *end = at + bytes;
    *t = (struct text){.name = name,
                       .room = malloc(LIMIT_LINE_BYTES + 1),
                       .cell = malloc(sizeof *t->cell * CELLS_MAX),
                       .features = calloc(1, sizeof *t->features)};
    if (t->room == NULL || t->cell == NULL || t->features == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to look at it; free some", name);
    if (bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3;
    while (at < end && t->lines < LINES) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL && cut && t->lines > 0)
            break; /* the rest of the line is not here */
        if (stop == NULL)
            stop = end;
        size_t n = (size_t)(stop - at);
        if (n > 0 && at[n - 1] == '\r')
            n--;
        if (n > 0 && n <= LIMIT_LINE_BYTES)
            t->line[t->lines++] = (struct cell){at, (uint32_t)n};
        at = stop + 1;
    }
    return 0;
}

/* A copy of line i that a reader may change. */
static char *line_of(struct text *t, uint32_t i)
{
    memcpy(t->room, t->line[i].text, t->line[i].bytes);
    t->room[t->line[i].bytes] = '\0';
    return t->room;
}

/* ---- libsvm, libffm, criteo ------------------------------------------------------------------ */

/* True when the reader takes all lines, and there is an entry with a colon or the file's name says
 * so. Numbers between blanks would be libsvm's indexes too. */
static bool entries_fit(struct text *t, enum data_format format, struct layout *out)
{
    struct format_look *look = calloc(1, sizeof *look);
    bool colon = false, named = guess_ends(t->name, format_name(format)) ||
                                (format == DATA_LIBSVM && guess_ends(t->name, "svm")) ||
                                (format == DATA_LIBFFM && guess_ends(t->name, "ffm"));
    char reason[REASON_BYTES];
    uint32_t fit = 0;
    for (uint32_t i = 0; look != NULL && i < t->lines; i++) {
        colon |= memchr(t->line[i].text, ':', t->line[i].bytes) != NULL;
        fit += format_of(format)->look(line_of(t, i), t->line[i].bytes, look, reason) == 0;
    }
    free(look);
    if (fit < t->lines * FIT_WELL || !(colon || named))
        return false;
    out->format = format;
    out->sure = colon;
    (void)snprintf(out->why, sizeof out->why, "a label and %s on %u of %u lines%s",
                   format == DATA_LIBSVM ? "index:value" : "field:index:value", fit, t->lines,
                   colon ? "" : ", without values: the file's name tells");
    return true;
}

static bool is_digits(const struct cell *c)
{
    uint32_t i = c->bytes > 0 && c->text[0] == '-';
    while (i < c->bytes && c->text[i] >= '0' && c->text[i] <= '9')
        i++;
    return i == c->bytes;
}

/* Criteo's log: a label of 0 or 1 and 13 whole numbers or empty cells, among 40 columns. */
static bool criteo_fits(struct text *t, struct layout *out)
{
    uint32_t fit = 0;
    for (uint32_t i = 0; i < t->lines; i++) {
        struct cell *c = t->cell;
        bool is = format_split('\t', t->line[i].text, t->line[i].bytes, c) == 40;
        is = is && c[0].bytes == 1 && (c[0].text[0] == '0' || c[0].text[0] == '1');
        for (uint32_t k = 1; k <= 13 && is; k++)
            is = is_digits(&c[k]);
        fit += is;
    }
    if (fit < t->lines * FIT_WELL)
        return false;
    out->format = DATA_CRITEO;
    out->columns = 40;
    out->sure = true;
    (void)snprintf(out->why, sizeof out->why,
                   "40 columns between tabs, a label and 13 whole numbers first, on %u of %u lines",
                   fit, t->lines);
    return true;
}

/* ---- csv ------------------------------------------------------------------------------------- */

/* The row that begins on line i and goes on while a quoted cell is open; a quote that nothing
 * closes costs the line alone. *next: the line behind it. */
static struct cell row_of(const struct text *t, uint32_t i, uint32_t *next)
{
    const char *delimiter = t->features->delimiter, *from = t->line[i].text;
    struct csv_walk w = {.state = 0};
    const char *at = from, *end = from + t->line[i].bytes;
    *next = i + 1;
    framing_walk(&w, delimiter, at, (size_t)(end - at));
    for (uint32_t k = i + 1; framing_open(&w) && k < t->lines; k++) {
        at = end;
        end = t->line[k].text + t->line[k].bytes;
        if (end - from > LIMIT_LINE_BYTES)
            break;
        framing_walk(&w, delimiter, at, (size_t)(end - at));
        if (!framing_open(&w)) {
            *next = k + 1;
            return (struct cell){from, (uint32_t)(end - from)};
        }
    }
    return t->line[i];
}

/* Cuts the row that begins on line i; 0: it is malformed. */
static uint32_t csv_cut(struct text *t, uint32_t i, uint32_t *next)
{
    char reason[REASON_BYTES];
    uint32_t count = 0;
    struct cell row = row_of(t, i, next);
    memcpy(t->room, row.text, row.bytes);
    t->room[row.bytes] = '\0';
    if (format_csv.head(t->features, t->room, row.bytes, t->cell, &count, reason) != 0)
        return 0;
    return count;
}

/* The number of columns that most lines have, and the share of those. The first line must have as
 * many. */
static double columns_by(struct text *t, const char *delimiter, uint32_t *columns)
{
    uint32_t *lines = calloc(CELLS_MAX + 1, sizeof *lines);
    uint32_t cut = 0, first = 0, most = 0, next;
    strcpy(t->features->delimiter, delimiter);
    for (uint32_t i = 0; lines != NULL && i < t->lines; i = next) {
        uint32_t count = csv_cut(t, i, &next);
        if (i == 0)
            first = count;
        if (count == 0)
            continue;
        cut++;
        lines[count]++;
        if (lines[count] > lines[most] || most == 0)
            most = count;
    }
    double share = lines != NULL && cut > 0 ? (double)lines[most] / cut : 0;
    free(lines);
    *columns = most;
    if (most < 2 || first != most)
        return 0;
    return share;
}

/* True when a cell of line 0 stands again in its column. */
static bool first_again(struct text *t, uint32_t columns)
{
    uint32_t next, n = csv_cut(t, 0, &next);
    uint64_t *hash = malloc(sizeof *hash * (columns + 1));
    bool again = false;
    for (uint32_t k = 0; hash != NULL && k < columns && k < n; k++)
        hash[k] = hash_bytes(t->cell[k].text, t->cell[k].bytes, 0);
    for (uint32_t i = next; hash != NULL && i < t->lines && !again; i = next) {
        n = csv_cut(t, i, &next);
        for (uint32_t k = 0; k < columns && n == columns; k++)
            again |=
                t->cell[k].bytes > 0 && hash[k] == hash_bytes(t->cell[k].text, t->cell[k].bytes, 0);
    }
    free(hash);
    return again;
}

/* True when some column has numbers behind the first line, which has none. */
static bool numbers_below(struct text *t, uint32_t columns)
{
    double x;
    uint32_t numbers = 0, lines = 0, next;
    (void)csv_cut(t, 0, &next);
    for (uint32_t i = next; i < t->lines; i = next) {
        if (csv_cut(t, i, &next) != columns)
            continue;
        lines++;
        bool has = false;
        for (uint32_t k = 0; k < columns; k++)
            has |= feature_number(&t->cell[k], &x);
        numbers += has;
    }
    return lines > 0 && numbers >= lines * 0.9;
}

static void header_find(struct text *t, struct layout *out)
{
    double x;
    const char *why;
    bool number = false, named = false;
    strcpy(t->features->delimiter, out->delimiter);
    uint32_t next, n = csv_cut(t, 0, &next);
    for (uint32_t k = 0; k < n; k++) {
        number |= feature_number(&t->cell[k], &x);
        named |= guess_is_name(t->cell[k].text, t->cell[k].bytes);
    }
    out->sure = true;
    if (number) {
        why = "the first line has numbers, so it names no columns";
    } else if (numbers_below(t, n)) {
        out->header = true;
        why = "the first line has names, the others have numbers";
    } else if (named) {
        out->header = true;
        why = "the first line has names";
    } else {
        out->header = !first_again(t, n);
        out->sure = !out->header;
        why = out->header ? "the first line seems to have names: look at it"
                          : "a value of the first line stands on others, so it names no columns";
    }
    if (out->header)
        out->head = hash_bytes(t->line[0].text, t->line[0].bytes, 0);
    size_t at = strlen(out->why);
    (void)snprintf(out->why + at, sizeof out->why - at, "; %s", why);
}

static int one_column(const struct text *t, struct err *e)
{
    return err_set(e, SHOAL_E_DATA,
                   "%s has one column only: its lines are not parted by comma, tab, ; | :: ^ byte "
                   "1 or blank into equally many cells; if another character parts them, write a "
                   "job with data.delimiter",
                   t->name);
}

/* "commas", "tabs", "\"::\"" */
static const char *between_text(const char delimiter[DELIMITER_BYTES], char out[24])
{
    static const struct {
        const char *is, *called;
    } names[] = {{",", "commas"}, {"\t", "tabs"}, {" ", "blanks"}, {"\x01", "bytes 1"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(delimiter, names[i].is) == 0)
            return names[i].called;
    (void)snprintf(out, 24, "\"%s\"", delimiter);
    return out;
}

static int csv_find(struct text *t, struct layout *out, struct err *e)
{
    static const char *const used[] = {",", "\t", ";", "|", "::", "\x01", "^", " "};
    double best = 0;
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        uint32_t columns;
        double share = columns_by(t, used[i], &columns);
        bool blank = used[i][0] == ' ', well = share >= FIT_WELL;
        if (share < FIT_LEAST || (blank && best > 0))
            continue;
        if (well == (best >= FIT_WELL) ? columns <= out->columns && best > 0 : !well)
            continue;
        best = share;
        out->columns = columns;
        strcpy(out->delimiter, used[i]);
    }
    if (best == 0)
        return one_column(t, e);
    char between[24];
    out->format = DATA_CSV;
    (void)snprintf(out->why, sizeof out->why, "%u columns between %s on %.0f%% of %u lines",
                   out->columns, between_text(out->delimiter, between), 100 * best, t->lines);
    header_find(t, out);
    out->sure &= best >= FIT_WELL;
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int text_layout(struct text *t, struct layout *out, struct err *e)
{
    char hint[KIND_HINT_BYTES] = "";
    const struct cell *first = &t->line[0];
    if (t->lines == 0)
        return err_set(e, SHOAL_E_DATA, "%s has no line that is not empty; look at the file",
                       t->name);
    for (uint32_t i = 0; i < t->lines; i++)
        if (memchr(t->line[i].text, '\0', t->line[i].bytes) != NULL)
            return err_set(e, SHOAL_E_DATA,
                           "%s is binary: a byte 0 stands in line %u; write its rows as csv",
                           t->name, i + 1);
    kind_hint(first->text, first->bytes,
              first->text[0] == '{' || first->text[0] == '[' ? ',' : '\0', hint);
    if (first->text[0] == '{' || first->text[0] == '[' || first->text[0] == '#' ||
        (first->bytes > 4 && memcmp(first->text, "sep=", 4) == 0))
        if (hint[0] != '\0')
            return err_set(e, SHOAL_E_DATA, "%s: %s", t->name, hint);
    if (entries_fit(t, DATA_LIBFFM, out) || entries_fit(t, DATA_LIBSVM, out) || criteo_fits(t, out))
        return 0;
    return csv_find(t, out, e);
}

int layout_of(const char *name, const char *text, size_t bytes, bool cut, struct layout *out,
              struct err *e)
{
    struct text t;
    *out = (struct layout){.sure = true};
    if (framing_is_record(text, bytes)) {
        out->format = DATA_TFRECORD;
        (void)snprintf(out->why, sizeof out->why, "records with lengths and checksums");
        return 0;
    }
    if (bytes >= 8 && memcmp(text, EVENTS_MAGIC, 7) == 0) {
        out->format = DATA_EVENTS;
        (void)snprintf(out->why, sizeof out->why, "an event file of shoal convert");
        return 0;
    }
    if (bytes == 0)
        return err_set(e, SHOAL_E_DATA, "%s is empty; look at the file", name);
    int rc = text_make(&t, name, text, bytes, cut, e);
    if (rc == 0)
        rc = text_layout(&t, out, e);
    text_free(&t);
    return rc;
}

bool layout_same(const struct layout *a, const struct layout *b)
{
    return a->format == b->format && strcmp(a->delimiter, b->delimiter) == 0 &&
           a->columns == b->columns && a->header == b->header && a->head == b->head;
}
