/* scale.c: texts of scales, and figures of a sample.
 *
 * 1. scale_parse reads back what scale_text wrote. [test: scale_texts_come_back] */
#include "proto/job/scale.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULE_BORDERS 40u /* bytes of borders that a rule's text says one by one */
#define MEAN_DIGITS 9
#define BORDER_DIGITS 6 /* so that SCALE_BORDERS of them fit a text */

static const char *const word[] = {[NUMBER_NONE] = "none",
                                   [NUMBER_LOG1P] = "log1p",
                                   [NUMBER_BUCKET] = "bucket",
                                   [NUMBER_STANDARD] = "standard"};

/* ---- texts ----------------------------------------------------------------------------------- */

/* The shortest decimal text that reads back as x. */
static void number_text(double x, char out[32])
{
    int digits = 6;
    do
        (void)snprintf(out, 32, "%.*g", digits, x);
    while (strtod(out, NULL) != x && ++digits <= 17);
}

static size_t piece_put(char *out, size_t room, size_t at, const char *piece)
{
    if (at < room)
        (void)snprintf(out + at, room - at, "%s", piece);
    return at + strlen(piece);
}

/* " at B1 B2 ..", cut at the room. Returns the length of the whole. All numbers of a sample may be
 * equal: then quantiles have no border. */
static size_t borders_text(const struct scale *s, char *out, size_t room)
{
    char one[34] = " ";
    size_t n = 0;
    if (s->borders > 0 || (s->quantiles > 0 && s->known))
        n = piece_put(out, room, n, " at");
    for (uint32_t i = 0; i < s->borders; i++) {
        number_text(s->border[i], one + 1);
        n = piece_put(out, room, n, one);
    }
    return n;
}

static void fill_text(const struct scale *s, char *out, size_t room)
{
    char one[32];
    if (!s->filled)
        return;
    number_text(s->fill, one);
    (void)snprintf(out, room, ", fill %s", one);
}

/* The transform and the parts asked for; returns the length. */
static size_t head_text(const struct scale *s, char *out, size_t room)
{
    int n;
    if (s->quantiles > 0)
        n = snprintf(out, room, "bucket of %u", s->quantiles);
    else
        n = snprintf(out, room, "%s", word[s->transform]);
    return (size_t)n;
}

void scale_text(const struct scale *s, char out[SCALE_TEXT])
{
    char mean[32], deviation[32];
    size_t n = head_text(s, out, SCALE_TEXT);
    if (s->transform == NUMBER_STANDARD && s->known) {
        number_text(s->mean, mean);
        number_text(s->deviation, deviation);
        n += (size_t)snprintf(out + n, SCALE_TEXT - n, " %s %s", mean, deviation);
    }
    n += borders_text(s, out + n, SCALE_TEXT - n);
    SHOAL_ASSERT(n + SCALE_FILL_TEXT < SCALE_TEXT);
    fill_text(s, out + n, SCALE_TEXT - n);
}

void scale_rule(const struct scale *s, char out[SCALE_RULE_TEXT])
{
    char borders[SCALE_TEXT];
    size_t n = head_text(s, out, SCALE_RULE_TEXT), bytes = 0;
    if (s->transform == NUMBER_BUCKET && s->quantiles == 0)
        bytes = borders_text(s, borders, sizeof borders);
    if (bytes > RULE_BORDERS)
        n += (size_t)snprintf(out + n, SCALE_RULE_TEXT - n, " at %u borders ~%08" PRIx32,
                              s->borders, (uint32_t)hash_bytes(borders, bytes, 0));
    else if (bytes > 0)
        n += (size_t)snprintf(out + n, SCALE_RULE_TEXT - n, "%s", borders);
    fill_text(s, out + n, SCALE_RULE_TEXT - n);
}

bool scale_borders_fit(const struct scale *s)
{
    for (uint32_t i = 0; i < s->borders; i++)
        if (!isfinite(s->border[i]) || (i > 0 && s->border[i] <= s->border[i - 1]))
            return false;
    return borders_text(s, NULL, 0) + SCALE_FILL_TEXT + 16 < SCALE_TEXT;
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* Moves *at behind the word, if it is there. */
static bool word_take(const char **at, const char *said)
{
    size_t n = strlen(said);
    if (strncmp(*at, said, n) != 0 || ((*at)[n] != 0 && (*at)[n] != ' ' && (*at)[n] != ','))
        return false;
    *at += n;
    return true;
}

/* Parses " X"; any form that strtod reads and that number_text may write. */
static bool number_take(const char **at, double *out)
{
    const char *p = *at;
    char *end;
    if (p[0] != ' ' || (p[1] != '-' && (p[1] < '0' || p[1] > '9')))
        return false;
    *out = strtod(p + 1, &end);
    if (!isfinite(*out) || (*end != 0 && *end != ' ' && *end != ','))
        return false;
    *at = end;
    return true;
}

static bool borders_take(const char **at, struct scale *s)
{
    double x;
    if (!word_take(at, " at"))
        return true;
    while (s->borders < SCALE_BORDERS && number_take(at, &x))
        s->border[s->borders++] = x;
    s->known = true;
    return s->quantiles > 0 || s->borders > 0;
}

static bool bucket_take(const char **at, struct scale *s)
{
    double parts = 0;
    if (word_take(at, " of")) {
        if (!number_take(at, &parts) || parts < 2 || parts > SCALE_BORDERS + 1 ||
            parts != floor(parts))
            return false;
        s->quantiles = (uint32_t)parts;
        s->known = false;
    }
    return borders_take(at, s) && scale_borders_fit(s);
}

bool scale_parse(const char *text, struct scale *out)
{
    struct scale s = {.known = true};
    const char *at = text;
    bool good;
    if (word_take(&at, word[NUMBER_BUCKET])) {
        s.transform = NUMBER_BUCKET;
        good = bucket_take(&at, &s);
    } else if (word_take(&at, word[NUMBER_STANDARD])) {
        s.transform = NUMBER_STANDARD;
        s.known = *at == ' ';
        good = !s.known ||
               (number_take(&at, &s.mean) && number_take(&at, &s.deviation) && s.deviation > 0);
    } else {
        good = word_take(&at, word[NUMBER_NONE]);
        if (!good && (good = word_take(&at, word[NUMBER_LOG1P])))
            s.transform = NUMBER_LOG1P;
    }
    if (good && word_take(&at, ", fill")) {
        s.filled = true;
        good = number_take(&at, &s.fill);
    }
    if (!good || *at != 0)
        return false;
    *out = s;
    return true;
}

bool scale_take(struct scale *s, const struct scale *kept)
{
    char is[SCALE_RULE_TEXT], was[SCALE_RULE_TEXT];
    scale_rule(s, is);
    scale_rule(kept, was);
    if (!kept->known || strcmp(is, was) != 0)
        return false;
    *s = *kept;
    return true;
}

/* ---- figures of a sample --------------------------------------------------------------------- */

/* A figure is what its digits say, so that a text and a script have the very same number. */
static double rounded(double x, int digits)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.*g", digits, x);
    return strtod(text, NULL);
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* In ascending order, so that the sums do not depend on the order of the sample. */
static void standard_learn(struct scale *s, const double *number, size_t count)
{
    double sum = 0, squares = 0, mean = 0;
    for (size_t i = 0; i < count; i++)
        sum += number[i];
    if (count > 0)
        mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (number[i] - mean) * (number[i] - mean);
    double deviation = count > 0 ? sqrt(squares / (double)count) : 0;
    s->mean = rounded(isfinite(mean) ? mean : 0, MEAN_DIGITS);
    s->deviation = rounded(isfinite(deviation) ? deviation : 0, MEAN_DIGITS);
    if (s->deviation <= 0) /* one number only */
        s->deviation = 1;
}

/* Equal numbers stay together, so there may be fewer parts than are asked for. */
static void quantiles_learn(struct scale *s, const double *number, size_t count)
{
    s->borders = 0;
    for (uint32_t k = 1; k < s->quantiles && count > 0; k++) {
        double x = rounded(number[(size_t)k * count / s->quantiles], BORDER_DIGITS);
        double before =
            s->borders > 0 ? s->border[s->borders - 1] : rounded(number[0], BORDER_DIGITS);
        if (x > before)
            s->border[s->borders++] = x;
    }
}

void scale_learn(struct scale *s, double *number, size_t count)
{
    if (count > 0)
        qsort(number, count, sizeof *number, by_number);
    if (s->transform == NUMBER_STANDARD)
        standard_learn(s, number, count);
    else if (s->quantiles > 0)
        quantiles_learn(s, number, count);
    s->known = true;
}
