/* join_input.c: impressions and clicks as one stream of rows. */
#include "worker/data/join_input.h"

#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "worker/data/taken.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct join_reader {
    struct lines lines;
    uint32_t file; /* UINT32_MAX: unassigned */
    uint64_t used; /* when it was last used */
};

/* ---- opening --------------------------------------------------------------------------------- */

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory to read a join's files; free some");
}

/* Finds a column by name in the header, whose cells are in in->cell. */
static int column_find(const struct join_input *in, const char *file, const char *key,
                       const char *name, uint32_t columns, uint32_t *out, struct err *e)
{
    size_t bytes = strlen(name);
    for (uint32_t i = 0; i < columns; i++)
        if (in->cell[i].bytes == bytes && memcmp(in->cell[i].text, name, bytes) == 0) {
            *out = i;
            return 0;
        }
    return err_set(e, SHOAL_E_CONFIG, "%s: no column \"%s\" (%s) in its header", file, name, key);
}

static int columns_find(struct join_input *in, uint32_t kind, const struct job *job,
                        const char *file, uint32_t columns, struct err *e)
{
    const char *const name[2][2] = {{job->data.join.id, job->data.time},
                                    {job->data.join.click_id, job->data.join.click_time}};
    const char *const key[2][2] = {{"data.join.id", "data.time"},
                                   {"data.join.click_id", "data.join.click_time"}};
    struct join_side *s = &in->side[kind];
    const char *label = job->data.label[0];
    uint32_t taken;
    int rc = column_find(in, file, key[kind][0], name[kind][0], columns, &s->id, e);
    if (rc == 0)
        rc = column_find(in, file, key[kind][1], name[kind][1], columns, &s->time, e);
    if (rc == 0 && kind == 0 && column_find(in, file, "", label, columns, &taken, NULL) == 0)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s has a column \"%s\", and data.join makes the label of that name: call it "
                     "otherwise in data.label, or take data.join away",
                     file, label);
    return rc;
}

/* Takes the columns from the first header of a kind. */
static int head_take(struct join_input *in, uint32_t kind, const struct job *job, const char *file,
                     const struct line *line, struct err *e)
{
    struct join_side *s = &in->side[kind];
    char reason[REASON_BYTES];
    uint32_t columns;
    s->head = malloc(line->bytes + 1);
    s->head_bytes = line->bytes;
    if (s->head == NULL)
        return no_memory(e);
    memcpy(s->head, line->text, line->bytes);
    s->features =
        (struct features){.format = format_of(DATA_CSV), .header = true, .zone = job->data.zone};
    text_copy(s->features.delimiter, sizeof s->features.delimiter, job->data.delimiter);
    if (s->features.format->head(&s->features, line->text, line->bytes, in->cell, &columns,
                                 reason) != 0)
        return err_set(e, SHOAL_E_DATA, "%s: its header: %s", file, reason);
    s->features.columns = columns;
    return columns_find(in, kind, job, file, columns, e);
}

static int head_check(const struct join_side *s, const char *file, const struct line *line,
                      struct err *e)
{
    if (line->bytes == s->head_bytes && memcmp(line->text, s->head, line->bytes) == 0)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s:%" PRIu64 ": the header is not that of the files before it; give all the "
                   "same columns in the same order",
                   file, line->number);
}

static int heads_take(struct join_input *in, uint32_t kind, const struct job *job, struct err *e)
{
    struct join_side *s = &in->side[kind];
    struct lines *lines = &in->reader[0].lines;
    struct line line;
    for (uint32_t i = 0; i < s->source->count; i++) {
        const struct source_file *f = &s->source->file[i];
        if (f->bytes == 0)
            continue;
        lines_start(lines, s->source, ROW_FORM_LINES, f->base, f->base + f->bytes, 0);
        int rc = lines_next(lines, &line, e);
        if (rc == SHOAL_E_END)
            continue;
        if (rc == 0 && s->head == NULL)
            rc = head_take(in, kind, job, f->name, &line, e);
        else if (rc == 0)
            rc = head_check(s, f->name, &line, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int memory_take(struct join_input *in, struct err *e)
{
    in->file = calloc(in->files, sizeof *in->file);
    in->heap = calloc(in->files, sizeof *in->heap);
    in->reader = calloc(JOIN_READERS, sizeof *in->reader);
    in->cell = malloc(CELLS_MAX * sizeof *in->cell);
    in->text[0] = malloc(LIMIT_LINE_BYTES);
    in->text[1] = malloc(LIMIT_LINE_BYTES);
    if (in->file == NULL || in->heap == NULL || in->reader == NULL || in->cell == NULL ||
        in->text[0] == NULL || in->text[1] == NULL)
        return no_memory(e);
    for (uint32_t i = 0; i < JOIN_READERS; i++) {
        in->reader[i].file = UINT32_MAX;
        int rc = lines_init(&in->reader[i].lines, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int join_input_open(struct join_input *in, const struct job *job, const struct source *impressions,
                    const struct source *clicks, struct join_counts *counts, struct err *e)
{
    *in = (struct join_input){.side = {{.source = impressions}, {.source = clicks}},
                              .counts = counts,
                              .disorder = job->data.join.disorder,
                              .form = job->data.time_form,
                              .files = impressions->count + clicks->count};
    int rc = memory_take(in, e);
    for (uint32_t kind = 0; kind < 2 && rc == 0; kind++)
        rc = heads_take(in, kind, job, e);
    if (rc == 0 && in->side[0].head == NULL)
        rc = err_set(e, SHOAL_E_DATA, "%s: there is no row in it; look at the files",
                     impressions->file[0].name);
    if (rc != 0)
        join_input_close(in);
    return rc;
}

void join_input_close(struct join_input *in)
{
    for (uint32_t i = 0; in->reader != NULL && i < JOIN_READERS; i++)
        lines_free(&in->reader[i].lines);
    for (uint32_t kind = 0; kind < 2; kind++)
        free(in->side[kind].head);
    free(in->file);
    free(in->heap);
    free(in->reader);
    free(in->cell);
    free(in->text[0]);
    free(in->text[1]);
    *in = (struct join_input){0};
}

/* ---- the next file
 * ---------------------------------------------------------------------------- */

static bool older(const struct join_input *in, uint32_t a, uint32_t b)
{
    uint32_t newest_a = in->file[a].newest, newest_b = in->file[b].newest;
    return newest_a < newest_b || (newest_a == newest_b && a < b);
}

static void heap_sink(struct join_input *in, uint32_t at)
{
    for (;;) {
        uint32_t least = at, left = 2 * at + 1, right = left + 1;
        if (left < in->heaped && older(in, in->heap[left], in->heap[least]))
            least = left;
        if (right < in->heaped && older(in, in->heap[right], in->heap[least]))
            least = right;
        if (least == at)
            return;
        uint32_t kept = in->heap[at];
        in->heap[at] = in->heap[least];
        in->heap[least] = kept;
        at = least;
    }
}

void join_input_again(struct join_input *in)
{
    in->heaped = 0;
    for (uint32_t i = 0; i < in->files; i++)
        if (!in->file[i].ended)
            in->heap[in->heaped++] = i;
    for (uint32_t at = in->heaped; at-- > 0;)
        heap_sink(in, at);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t kind_of(const struct join_input *in, uint32_t file)
{
    return file >= in->side[0].source->count;
}

static const struct source_file *source_of(const struct join_input *in, uint32_t file)
{
    uint32_t kind = kind_of(in, file);
    if (kind > 0)
        file -= in->side[0].source->count;
    return &in->side[kind].source->file[file];
}

/* The reader of a file at its position; the least recently used reader is reassigned. */
static struct lines *reader_of(struct join_input *in, uint32_t file)
{
    struct join_reader *mine = &in->reader[0];
    for (uint32_t i = 0; i < JOIN_READERS && mine->file != file; i++)
        if (in->reader[i].file == file || in->reader[i].used < mine->used)
            mine = &in->reader[i];
    if (mine->file != file) {
        const struct source_file *f = source_of(in, file);
        const struct row_form form = {.header = true};
        mine->file = file;
        lines_start(&mine->lines, in->side[kind_of(in, file)].source, form, in->file[file].at,
                    f->base + f->bytes, in->file[file].number);
    }
    mine->used = ++in->reads;
    return &mine->lines;
}

enum fate { FATE_GOOD, FATE_MALFORMED, FATE_NO_ID, FATE_NO_TIME, FATE_LATE };

static enum fate no_time(const struct join_input *in, const struct cell *cell, char *reason)
{
    (void)snprintf(reason, REASON_BYTES, "no event time; %s", feature_time_remedy(cell, &in->form));
    return FATE_NO_TIME;
}

static enum fate row_read(struct join_input *in, uint32_t file, const struct line *line,
                          struct join_row *row, char *reason)
{
    const struct join_side *s = &in->side[kind_of(in, file)];
    uint32_t time;
    *row = (struct join_row){.at = line->at,
                             .bytes = line->bytes & 0xffffff,
                             .sum = hash_bytes(line->text, line->bytes, 0),
                             .what = kind_of(in, file) == 0 ? JOIN_OPEN : JOIN_CLICK};
    _Static_assert(LIMIT_LINE_BYTES < 1 << 24, "a line's bytes fit");
    (void)strcpy(reason, "longer than is allowed");
    if (line->fault != NULL ||
        s->features.format->line(&s->features, line->text, line->bytes, in->cell, reason) != 0)
        return FATE_MALFORMED;
    if (in->cell[s->id].bytes == 0)
        return FATE_NO_ID;
    if (!feature_time(&in->cell[s->time], &in->form, &s->features.zone, &time))
        return no_time(in, &in->cell[s->time], reason);
    if ((uint64_t)time + in->disorder < in->file[file].newest)
        return FATE_LATE;
    row->time = time;
    row->hash = hash_bytes(in->cell[s->id].text, in->cell[s->id].bytes, 0);
    return FATE_GOOD;
}

static void fate_tell(struct join_input *in, uint32_t file, const struct line *line, enum fate fate,
                      const char *reason)
{
    struct join_counts *n = in->counts;
    uint64_t *of[2][5] = {{&n->impressions, &n->impressions_malformed, &n->impressions_without_id,
                           &n->impressions_without_time, &n->impressions_out_of_order},
                          {&n->clicks, &n->clicks_malformed, &n->clicks_without_id,
                           &n->clicks_without_time, &n->clicks_out_of_order}};
    const char *what[] = {"", reason, "no id", reason,
                          "further behind the rows before it than data.join.disorder"};
    uint64_t *count = of[kind_of(in, file)][fate];
    ++*count;
    n->impressions += fate != FATE_GOOD && kind_of(in, file) == 0;
    n->clicks += fate != FATE_GOOD && kind_of(in, file) == 1;
    if (fate != FATE_GOOD && *count <= 3) /* the first ones of each kind are logged */
        log_warn("join leaves out %s:%" PRIu64 ": %s", source_of(in, file)->name, line->number,
                 what[fate]);
}

/* The next good row of a file, or END. */
static int file_next(struct join_input *in, uint32_t file, struct join_row *row, struct err *e)
{
    const struct source_file *of = source_of(in, file);
    struct join_file *f = &in->file[file];
    if (f->at == of->base + of->bytes)
        return SHOAL_E_END; /* the file has no position to resume from */

    struct lines *lines = reader_of(in, file);
    enum fate fate = FATE_MALFORMED;
    char reason[REASON_BYTES];
    struct line line;
    while (fate != FATE_GOOD) {
        int rc = lines_next(lines, &line, e);
        if (rc != 0)
            return rc;
        fate = row_read(in, file, &line, row, reason);
        fate_tell(in, file, &line, fate, reason);
        in->bytes += line.bytes + 1;
    }
    f->at = lines_position(lines);
    f->number = line.number;
    if (row->time > f->newest)
        f->newest = row->time;
    return 0;
}

void join_input_begin(struct join_input *in)
{
    in->bytes = 0;
    for (uint32_t i = 0; i < in->files; i++)
        in->file[i] = (struct join_file){.at = source_of(in, i)->base};
    join_input_again(in);
}

int join_input_next(struct join_input *in, struct join_row *row, struct err *e)
{
    while (in->heaped > 0) {
        uint32_t file = in->heap[0];
        int rc = file_next(in, file, row, e);
        if (rc != 0 && rc != SHOAL_E_END)
            return rc;
        if (rc == SHOAL_E_END) {
            in->file[file].ended = 1;
            in->heap[0] = in->heap[--in->heaped];
        }
        heap_sink(in, 0);
        if (rc == 0)
            return 0;
    }
    return SHOAL_E_END;
}

uint64_t join_input_mark(const struct join_input *in)
{
    if (in->heaped == 0)
        return UINT64_MAX;
    uint32_t newest = in->file[in->heap[0]].newest;

    if (newest > in->disorder)
        return newest - in->disorder;

    return 0;
}

/* ---- reading a row again
 * ---------------------------------------------------------------------- */

int join_input_text(struct join_input *in, const struct join_row *row, uint32_t which,
                    struct err *e)
{
    const struct join_side *s = &in->side[row->what == JOIN_CLICK];
    const struct source_file *f = &s->source->file[source_file_at(s->source, row->at)];
    char reason[REASON_BYTES];
    size_t have = 0;
    while (have < row->bytes) {
        ssize_t n = pread(f->fd, in->text[which] + have, row->bytes - have,
                          (off_t)(row->at - f->base + have));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", f->name, strerror(errno));
        if (n == 0)
            break;
        have += (size_t)n;
        taken_note((uint64_t)n);
    }
    if (have < row->bytes || hash_bytes(in->text[which], row->bytes, 0) != row->sum ||
        s->features.format->line(&s->features, in->text[which], row->bytes, in->cell, reason) != 0)
        return err_set(e, SHOAL_E_CHECKSUM,
                       "%s: a row at byte %" PRIu64 " is not what it was; leave the input alone "
                       "while it is joined, and start again",
                       f->name, row->at - f->base);
    return 0;
}

int join_input_same(struct join_input *in, const struct join_row *a, const struct join_row *b,
                    bool *same, struct err *e)
{
    *same = false;
    int rc = join_input_text(in, a, 0, e);
    if (rc != 0)
        return rc;
    const struct cell first = in->cell[in->side[a->what == JOIN_CLICK].id];
    rc = join_input_text(in, b, 1, e);
    if (rc != 0)
        return rc;
    const struct cell second = in->cell[in->side[b->what == JOIN_CLICK].id];
    *same = first.bytes == second.bytes && memcmp(first.text, second.text, first.bytes) == 0;
    return 0;
}
