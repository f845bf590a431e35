/* scale.h: how the numbers of a column are read: the transform, the number that stands for a
 * missing one, and the figures of the transform.
 *
 * A rule is what a job asks for. Where it needs figures of the data (mean and deviation, borders by
 * quantiles), they are taken once from a sample and kept with the tables' names (legend.h), so that
 * every later job reads a number as the first one did. Text of a scale:
 *
 *     none | log1p | standard [MEAN DEVIATION] | bucket | bucket at BORDER.. | bucket of N [at
 *     BORDER..]
 *
 * followed by ", fill X" where a number stands for a missing one. Pure. */
#ifndef PROTO_JOB_SCALE_H
#define PROTO_JOB_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* log1p: sign(x) log(1 + |x|); bucket: a category; standard: (x - mean) / deviation */
enum number_transform { NUMBER_NONE, NUMBER_LOG1P, NUMBER_BUCKET, NUMBER_STANDARD };

#define SCALE_BORDERS 49u   /* borders of a column at most */
#define SCALE_TEXT 768u     /* bytes of a text with its end */
#define SCALE_FILL_TEXT 32u /* bytes of ", fill X" with its end */
#define SCALE_RULE_TEXT 72u /* bytes of a rule's text with its end */

struct scale {
    enum number_transform transform;
    bool filled;        /* `fill` stands for a missing number; else it is input 0 or a bucket */
    bool known;         /* the figures are there, or the rule needs none */
    uint32_t quantiles; /* bucket: the parts asked for; 0: borders are given, or powers of 2 */
    uint32_t borders; /* bucket: 0: floor(log2 |x|) with the sign, unless quantiles are asked for */
    double fill, mean, deviation;
    double border[SCALE_BORDERS]; /* (borders): ascending */
};

/* The text of a scale, with its figures where they are known. */
void scale_text(const struct scale *s, char out[SCALE_TEXT]);
/* The text of its rule: without figures of the data; of many borders, their number and hash. Equal
 * texts: equal rules. */
void scale_rule(const struct scale *s, char out[SCALE_RULE_TEXT]);
/* Parses a scale's text, which may be any bytes; `out` is unchanged when it returns false. */
bool scale_parse(const char *text, struct scale *out);
/* True when borders ascend, are finite and fit a text. */
bool scale_borders_fit(const struct scale *s);
/* Takes the figures of `kept`, unless its rule is another one; returns true when it took them. */
bool scale_take(struct scale *s, const struct scale *kept);

/* The network's input for x. The scale is known and no bucket; `log1p` is feature_log1p's. */
static inline double scale_standard(const struct scale *s, double x)
{
    return (x - s->mean) / s->deviation;
}
/* The bucket of x: the number of borders up to x. */
static inline uint32_t scale_bucket(const struct scale *s, double x)
{
    uint32_t low = 0, high = s->borders;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->border[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
/* Fills in the figures from the numbers of a sample (count), which it sorts. Mean and deviation
 * have nine digits, borders six. */
void scale_learn(struct scale *s, double *number, size_t count);
#endif
