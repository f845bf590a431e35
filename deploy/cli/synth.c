/* synth.c: `shoal synth`: writes a synthetic log and prints how well its teacher does on it. */
#include "deploy/cli/synth.h"

#include "deploy/cli/cli.h"
#include "deploy/cli/synth_row.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"
#include "proto/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES (1u << 20)
/* AUC by counting: logits in [-16, 16) fall into bins; those of one bin count as equal. */
#define BINS (1u << 18)

struct tally {
    uint64_t *bin[2]; /* (BINS), owned: rows of label 0 and 1 */
    uint64_t positive;
    double loss;
};

/* ---- text ---- */

char *synth_row_put_number(char *to, int64_t x)
{
    char digits[24];
    uint64_t rest = x < 0 ? (uint64_t)-x : (uint64_t)x;
    int n = 0;
    do
        digits[n++] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (x < 0)
        *to++ = '-';
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

/* A value's eight digits: a bijection of 32 bits, so that no two values of a field have the
 * same. */
static char *put_value(char *to, uint64_t salt, uint32_t rank)
{
    uint32_t x = rank ^ (uint32_t)salt;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    x ^= x >> 16;
    for (int shift = 28; shift >= 0; shift -= 4)
        *to++ = "0123456789abcdef"[x >> shift & 15];
    return to;
}

static char *put_row(char *to, const struct synth_teacher *t, const struct synth_row *row)
{
    *to++ = row->label ? '1' : '0';
    for (uint32_t i = 0; i < SYNTH_NUMBERS; i++) {
        *to++ = '\t';
        if (row->present[i])
            to = synth_row_put_number(to, row->number[i]);
    }
    for (uint32_t i = 0; i < SYNTH_FIELDS; i++) {
        *to++ = '\t';
        if (!(t->field[i].empty && row->rank[i] == 1))
            to = put_value(to, t->field[i].salt, row->rank[i]);
    }
    *to++ = '\n';
    return to;
}

/* ---- the teacher's figures ---- */

static void tally_add(struct tally *tally, double logit, double p, bool label)
{
    double place = (logit + 16.0) * (BINS / 32.0);
    uint32_t bin = place < 0 ? 0 : place >= BINS ? BINS - 1 : (uint32_t)place;
    tally->bin[label][bin]++;
    tally->positive += label;
    tally->loss -= log(label ? p : 1.0 - p);
}

static void tally_result(const struct tally *tally, uint64_t rows, struct synth_score *out)
{
    double below = 0, pairs = 0, negative = (double)(rows - tally->positive);
    for (uint32_t i = 0; i < BINS; i++) {
        pairs += (double)tally->bin[1][i] * (below + 0.5 * (double)tally->bin[0][i]);
        below += (double)tally->bin[0][i];
    }
    out->rate = (double)tally->positive / (double)rows;
    out->logloss = tally->loss / (double)rows;
    out->auc =
        tally->positive > 0 && negative > 0 ? pairs / ((double)tally->positive * negative) : 0.5;
}

static int tallies_new(struct tally tally[SYNTH_LABELS], struct err *e)
{
    for (uint32_t i = 0; i < SYNTH_LABELS; i++)
        for (int label = 0; label < 2; label++)
            if ((tally[i].bin[label] = calloc(BINS, sizeof(uint64_t))) == NULL)
                return err_set(e, SHOAL_E_NOMEM, "no memory to count; free some");
    return 0;
}

static void tallies_free(struct tally tally[SYNTH_LABELS])
{
    for (uint32_t i = 0; i < SYNTH_LABELS; i++) {
        free(tally[i].bin[0]);
        free(tally[i].bin[1]);
    }
}

/* ---- files ---- */

static int write_failed(const char *path, struct err *e)
{
    int code = SHOAL_E_IO;
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == ENOENT || errno == EACCES)
        code = SHOAL_E_CANTCREATE;
    return err_set(e, code, "%s: %s; choose another --out or free some space", path,
                   strerror(errno));
}

/* Writes the text of a row and adds the row to the figures. */
static char *row_write(const struct synth_teacher *t, uint64_t part, uint64_t i, char *to,
                       struct tally *tally)
{
    struct synth_truth truth;
    if (t->kind == SYNTH_CRITEO) {
        struct synth_row row;
        synth_row_draw(t, part, i, &row);
        tally_add(tally, row.logit, synth_row_probability(row.logit), row.label);
        return put_row(to, t, &row);
    }
    to = synth_row_kind_put(t, part, i, to, &truth);
    for (uint32_t label = 0; synth_label(t->kind, label) != NULL; label++) {
        double p = truth.probability[label];
        tally_add(&tally[label], log(p / (1.0 - p)), p, truth.label[label]);
    }
    return to;
}

static int rows_write(FILE *file, const struct synth_teacher *t, uint64_t part, uint64_t rows,
                      struct tally *tally)
{
    static char block[BLOCK_BYTES + SYNTH_ROW_BYTES];
    char *to = block;
    if (fputs(synth_row_kind_head(t->kind), file) < 0)
        return -1;
    for (uint64_t i = 0; i < rows; i++) {
        to = row_write(t, part, i, to, tally);
        if (to < block + BLOCK_BYTES && i + 1 < rows)
            continue;
        if (fwrite(block, 1, (size_t)(to - block), file) != (size_t)(to - block))
            return -1;
        to = block;
    }
    return 0;
}

/* Gives a file written under a temporary name its final name: a file of that name is complete. */
static int finish(FILE *file, int failed, const char *temporary, const char *path, struct err *e)
{
    int rc = 0;
    if (failed != 0 || fflush(file) != 0)
        rc = write_failed(path, e);
    if (fclose(file) != 0 && rc == 0)
        rc = write_failed(path, e);
    if (rc == 0 && file_rename(temporary, path) != 0)
        rc = write_failed(path, e);
    if (rc != 0)
        file_unlink(temporary);
    return rc;
}

static int sidecar_write(const char *log, const struct synth_teacher *t,
                         const struct synth_result *r, struct err *e)
{
    char path[LIMIT_PATH + 16], temporary[LIMIT_PATH + 32];
    snprintf(path, sizeof path, "%s.teacher.json", log);
    snprintf(temporary, sizeof temporary, "%s.%d.part", path, (int)getpid());
    FILE *file = file_stream(temporary, false);
    if (file == NULL)
        return write_failed(path, e);
    int failed = fprintf(file, "{\"rows\": %" PRIu64, r->rows) < 0;
    for (uint32_t n = 0; n < r->labels + (r->labels > 1); n++) {
        /* the first label's figures have plain names too */
        uint32_t i = SAT_SUB(n, 1);
        const char *of = text_if(n > 0, synth_label(t->kind, i)), *joint = text_if(n > 0, "_");
        failed |=
            fprintf(file, ", \"%s%sauc\": %.6f, \"%s%slogloss\": %.6f, \"%s%slabel_rate\": %.6f",
                    of, joint, r->label[i].auc, of, joint, r->label[i].logloss, of, joint,
                    r->label[i].rate) < 0;
    }
    failed |= fprintf(file, ", \"seed\": %" PRIu64 "}\n", t->seed) < 0;
    return finish(file, failed, temporary, path, e);
}

/* Writes PATH and PATH.teacher.json, each under a temporary name first. CANTCREATE, IO, NOMEM. */
static int log_write(const struct synth_teacher *t, uint64_t part, uint64_t rows, const char *path,
                     struct synth_result *out, struct err *e)
{
    char temporary[LIMIT_PATH + 32];
    if (strlen(path) >= LIMIT_PATH)
        return err_set(e, SHOAL_E_USAGE,
                       "the path of the log is longer than %u bytes; choose a shorter one",
                       LIMIT_PATH - 1);
    snprintf(temporary, sizeof temporary, "%s.%d.part", path, (int)getpid()); /* one a process */
    struct tally tally[SYNTH_LABELS] = {{{NULL, NULL}, 0, 0}};
    int rc = tallies_new(tally, e);
    FILE *file = NULL;
    if (rc == 0 && (file = file_stream(temporary, false)) == NULL)
        rc = write_failed(path, e);
    if (rc == 0)
        rc = finish(file, rows_write(file, t, part, rows, tally), temporary, path, e);
    if (rc == 0) {
        out->rows = rows;
        for (out->labels = 0; synth_label(t->kind, out->labels) != NULL; out->labels++)
            tally_result(&tally[out->labels], rows, &out->label[out->labels]);
        rc = sidecar_write(path, t, out, e);
    }
    tallies_free(tally);
    return rc;
}

/* ---- the verb ---- */

static int write_and_say(const struct synth_teacher *t, uint64_t part, int64_t rows,
                         const char *path, struct err *e)
{
    struct synth_result r;
    int rc = log_write(t, part, (uint64_t)rows, path, &r, e);
    if (rc != 0)
        return rc;
    printf("%s: %" PRIu64 " rows", path, r.rows);
    for (uint32_t i = 0; i < r.labels; i++)
        printf("%s%s%s rate %.4f, teacher AUC %.4f, logloss %.4f", i == 0 ? ", " : "; ",
               text_if(r.labels > 1, "label "), synth_label(t->kind, i), r.label[i].rate,
               r.label[i].auc, r.label[i].logloss);
    putchar('\n');
    return 0;
}

static int logs_write(const struct option_line *o, const char *out, const char *valid_out,
                      struct err *e)
{
    struct synth_teacher teacher;
    int64_t rows = option_int(o, "rows"), valid_rows = MAX(rows / 10, 1);
    synth_teacher_make((enum synth_kind)option_choice(o, "kind"), (uint64_t)option_int(o, "seed"),
                       &teacher);
    int rc = write_and_say(&teacher, (uint64_t)option_int(o, "part"), rows, out, e);
    if (option_given(o, "valid-rows"))
        valid_rows = option_int(o, "valid-rows");
    if (rc == 0 && valid_out != NULL)
        return write_and_say(&teacher, 1, valid_rows, valid_out, e);
    return rc;
}

int cli_synth(struct option_line *o, struct err *e)
{
    const char *out = option_text(o, "out"), *valid_out = option_text(o, "valid-out");
    bool valid_rows = option_given(o, "valid-rows");
    if (out == NULL)
        return err_set(e, SHOAL_E_USAGE, "--out is missing: give the file to write");
    if (valid_rows && valid_out == NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "--valid-rows without --valid-out: give the file to write them to");
    return logs_write(o, out, valid_out, e);
}
